package seal

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Encryption is how a store seals what it keeps of some kinds of objects: payloads, tombstones, index terms and
// dictionaries. The names of objects, their namespaces, UIDs and resourceVersions, how large they are and when they
// change stay readable, as do those who are in memory. docs/adr/0012 has the reasons.
type Encryption struct {
	// Keys wrap the data keys, which are random and of one file. Required. See ParseKeys for keys from a text, and
	// KeyProvider for a KMS.
	Keys KeyProvider
	// Resources whose collections are sealed, in whatever scope, version and representation. Default (nil): core Secrets.
	// A collection that has been sealed stays so, whatever this says later; Drop it to have it otherwise.
	Resources []schema.GroupResource
}

// KeyProvider wraps and unwraps data keys under keys that it does not give away (envelope encryption), as a KMS does.
// Its methods are called by Open, and by Rekey, never while a transaction is open; they may be called concurrently.
// They should return when ctx ends. Their errors are shown to users, and must hold no key.
//
// Ids must be stable: an id names the same key for ever, and CurrentKey and Wrap call it by the same one. Of a KMS take
// the ARN or resource name of a key (of its version, where Unwrap needs that), not an alias, which can be pointed at
// another key and which the KMS answers with the key's own name. If Wrap returns another id than CurrentKey (the ARN
// for the alias), no data key ever is of the current key: each Open to write makes one more, which is stored when
// something is sealed with it, so the file collects them until Rekey. If an id is given to another key, that rotation
// is not noticed: data keys that were wrapped before stay in use, and Unwrap is asked for them under an id whose key
// does not fit, so that Open fails with ErrWrongKey, unless the provider finds the key by what is wrapped.
type KeyProvider interface {
	// CurrentKey returns the id of the key that Wrap uses. If no data key of the file has been wrapped under it, Open
	// makes a new one. An id is stored in the file, readable.
	CurrentKey(ctx context.Context) (id string, err error)
	// Wrap encrypts a data key of 32 bytes, which it must not keep, under the current key, and returns the id of that: the
	// one that CurrentKey returns.
	Wrap(ctx context.Context, dataKey []byte) (id string, wrapped []byte, err error)
	// Unwrap is the reverse. The result is the caller's, who overwrites it. If the provider has no key of that id, or what
	// is wrapped does not fit it, the error wraps ErrWrongKey; any other one is taken for a provider that cannot be
	// reached.
	Unwrap(ctx context.Context, id string, wrapped []byte) (dataKey []byte, err error)
}

// secrets are sealed if nothing else is said.
var secrets = schema.GroupResource{Resource: "secrets"}

// Seals reports whether new collections of the resource are sealed. Nil seals nothing.
func (e *Encryption) Seals(r schema.GroupResource) bool {
	if e == nil {
		return false
	}
	all := e.Resources
	if all == nil {
		all = []schema.GroupResource{secrets}
	}
	for _, one := range all {
		if strings.EqualFold(one.Group, r.Group) && strings.EqualFold(one.Resource, r.Resource) {
			return true
		}
	}
	return false
}
