package seal

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Encryption makes a store seal objects of some resources: their payloads, tombstones, index terms and dictionaries.
// Names, namespaces, UIDs, resourceVersions, sizes and times stay readable, and in memory nothing is sealed.
// docs/adr/0012 has the reasons.
type Encryption struct {
	// Keys wraps the data keys, which are random, and different in each file. Required. See ParseKeys for keys from a
	// text, and KeyProvider for a KMS.
	Keys KeyProvider
	// Resources whose collections are sealed, in any scope, version and representation. Default (nil): core Secrets.
	// A collection that has been sealed stays sealed, even if Resources no longer has it, until it is dropped.
	Resources []schema.GroupResource
}

// KeyProvider wraps and unwraps data keys with keys that it does not reveal (envelope encryption), as a KMS does. Open
// and Rekey call its methods, perhaps concurrently, and never while a transaction is open. The methods should return
// when ctx ends. Their errors are shown to users, and must contain no key.
//
// Ids must be stable: an id names the same key for ever, and CurrentKey and Wrap return the same id for a key. With a
// KMS use the ARN or resource name of the key (of its version, if Unwrap needs that). Do not use an alias, for two
// reasons:
//
//   - The KMS answers with the key's own name. If Wrap returns another id than CurrentKey (the ARN for the alias), no
//     data key seems to be wrapped by the current key. Then each Open for writing makes another data key, which is
//     stored when it first seals an object, and the file collects data keys until Rekey.
//   - An alias can be moved to another key, and the store does not notice that rotation: earlier data keys stay in use,
//     and Unwrap is called for them with an id whose key does not fit. Then Open fails with ErrWrongKey, unless the
//     provider finds the key by the wrapped data.
type KeyProvider interface {
	// CurrentKey returns the id of the key that Wrap uses. If it has wrapped no data key of the file, Open makes a new
	// data key. Ids are stored in the file in plain text.
	CurrentKey(ctx context.Context) (id string, err error)
	// Wrap encrypts a data key of 32 bytes with the current key, and returns that key's id, as CurrentKey does. It must
	// not keep dataKey.
	Wrap(ctx context.Context, dataKey []byte) (id string, wrapped []byte, err error)
	// Unwrap decrypts a wrapped data key. The caller owns the result, and overwrites it. If the provider has no key of
	// that id, or the key does not fit, the error must wrap ErrWrongKey. Any other error means that the provider cannot be
	// reached.
	Unwrap(ctx context.Context, id string, wrapped []byte) (dataKey []byte, err error)
}

// secrets is the default of Encryption.Resources.
var secrets = schema.GroupResource{Resource: "secrets"}

// Seals reports whether new collections of the resource are sealed. A nil Encryption seals nothing.
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
