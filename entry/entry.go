package entry

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// Entry is a stored object in encoded form, for callers that pass it on without decoding it.
type Entry struct {
	// Key is the object's key in client-go's cache: namespace/name, or name.
	Key string
	// UID and ResourceVersion are the object's.
	UID             string
	ResourceVersion string
	// Encoding is the Codec.Name of the codec that wrote Payload.
	Encoding string
	// Payload is the encoded object as the codec wrote it: neither compressed nor sealed (encrypted).
	Payload []byte
}

// ObjectRef identifies one state of one object.
type ObjectRef struct {
	Key             string // the object's key; RefKey of a key that is too long
	UID             string
	ResourceVersion string
}

// MaxKey is the maximum length of an object's key in the store, in bytes. Kubernetes' names have at most 253 bytes,
// except for a few kinds, such as RBAC roles.
const MaxKey = 16 << 10

const refPrefix = 256

// RefKey returns an object's name in an ObjectRef: the key, or the start, length and hash of a key longer than MaxKey.
func RefKey(key string) string {
	if len(key) <= MaxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s… (%d bytes, %x)", strings.ToValidUTF8(key[:refPrefix], ""), len(key), sum[:8])
}

// RefOf identifies the state of obj.
func RefOf(obj metav1.Object) ObjectRef {
	key := obj.GetName()
	if ns := obj.GetNamespace(); ns != "" {
		key = ns + "/" + key
	}
	return ObjectRef{Key: RefKey(key), UID: string(obj.GetUID()), ResourceVersion: obj.GetResourceVersion()}
}

// LeftOutReason is why an object was refused.
type LeftOutReason string

// Reasons for which an object is refused.
const (
	// LeftOutTransform means that the informer's transform failed.
	LeftOutTransform LeftOutReason = "transform"
	// LeftOutIndex means that an index function failed.
	LeftOutIndex LeftOutReason = "index"
	// LeftOutCodec means that the codec failed on the object, or is for another Go type.
	LeftOutCodec LeftOutReason = "codec"
	// LeftOutKey means that the object has no key, or a key of more than MaxKey bytes.
	LeftOutKey LeftOutReason = "key"
)

// LeftOut is a state of an object that the store or the informer has refused. The collection holds an older state of
// the object, or none. The LeftOut is stored together with the resourceVersion that covers the object, until the object
// is stored or deleted.
type LeftOut struct {
	ObjectRef
	Reason LeftOutReason
}

// ComparableRV reports whether rv can be compared with other resourceVersions.
func ComparableRV(rv string) bool {
	_, err := resourceversion.CompareResourceVersion(rv, rv)
	return err == nil
}

// NewerRV reports whether a is newer than b. It is false for resourceVersions that cannot be compared.
func NewerRV(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c > 0
}

// OpType is the effect of an Op.
type OpType uint8

// Effects of an Op.
const (
	// Upsert writes the object under its key.
	Upsert OpType = iota
	// Delete removes the object with the key of Op.Object.
	Delete
	// LeaveOut stores only that the caller refused the object Op.LeftOut. A stored object of that key stays.
	LeaveOut
)

func (t OpType) String() string {
	switch t {
	case Delete:
		return "Delete"
	case LeaveOut:
		return "LeaveOut"
	}
	return "Upsert"
}

// Op is the effect of one watch event on a collection.
type Op struct {
	Type OpType
	// Object is the object of the watch event. For Delete it is the last state, or a cache.DeletedFinalStateUnknown.
	Object any
	// Event is the type of the watch event (cache.Added, cache.Updated or cache.Deleted), if the watch began at the
	// collection's stored state. Change.Contradicts then reports whether the event contradicts that state. Default: no
	// check.
	Event cache.DeltaType
	// LeftOut describes the refused object of a LeaveOut, which has no Object.
	LeftOut LeftOut
}

// Batch is a sequence of Ops that Apply commits in one transaction.
type Batch struct {
	Ops []Op
	// ResourceVersion is the resourceVersion of the last watch event or bookmark. It covers everything up to and including
	// Ops. If it is empty, the stored resourceVersion stays.
	ResourceVersion string
	// LastContact is when the server last confirmed that the state after the batch is current, or sent a newer state. If
	// it is zero, the stored time stays.
	LastContact time.Time
	// IfContradicted becomes Info.MustRelist, in the transaction of Ops, if any Op contradicts the stored state
	// (Change.Contradicts). Default: MustRelist stays unchanged.
	IfContradicted string
	// Unpaced makes Apply wait only at the second bound of Collection.Backpressure, 64 MiB of uncommitted changes, and not
	// for the speed of the disk. It is for a caller that has already waited in Collection.Backpressure, and calls Apply
	// with a lock held.
	Unpaced bool
}

// Change is the effect of one Op, or of one difference found by a relist, on the store.
type Change struct {
	// Type is cache.Added, cache.Updated or cache.Deleted.
	Type cache.DeltaType
	Key  string

	// Old is the previously stored object, perhaps an *Undecoded (see Decoded). For Deleted it is the last stored state.
	// It is nil if no object was stored, or if this program cannot decode the object (see ErrIncompatible).
	Old runtime.Object
	// OldRef identifies the stored state of Old; zero if no object was stored. OldRef is from the stored record, because
	// handlers may have changed the metadata of Old, which is shared.
	OldRef ObjectRef
	// New is the newly stored object, perhaps an *Undecoded. For Deleted it is the event's object, or nil in a relist.
	New runtime.Object
	// Contradicts is true if Op.Event cannot follow the stored state in the history of one server: the key had an object
	// with another UID, or no object to modify or delete. The op was applied nevertheless. Only Apply sets Contradicts.
	//
	// Contradicts is false if the stored state proves nothing: if the object was left out, or may have been
	// (Info.LeftOutMore), if the collection must be listed (Info.Complete, Info.MustRelist), and if the event is no newer
	// than Info.ResourceVersion.
	Contradicts bool
}

// Skipped is an object that was left out of a batch because it has no valid key, or cannot be encoded or indexed. A
// stored object of the same key stays, and Info.LeftOut names the skipped object.
type Skipped struct {
	// Key is empty for an object without a key, and truncated for a key that is too long to be stored.
	Key string
	Err error
}

// Result is the outcome of a batch, or of a page of a list.
type Result struct {
	Changes []Change
	Skipped []Skipped
	// Staged is true if a Replacement, a list in progress, holds back the changes of the page. The result of a later call,
	// such as Replacement.Commit, has these changes.
	Staged bool
	// More is true after Replacement.Commit applied only a part of a list. The caller must call Commit once more.
	More bool
}

// ErrDamaged means that the store's file, or a record or an index in it, differs from the written contents.
var ErrDamaged = errors.New("the store is damaged")

// ErrIncompatible means that a stored object is undamaged, but unreadable for this program, because a program with
// another Go type, codec or record version wrote it. A relist that rewrites every payload (ReplaceOptions.Rewrite)
// repairs it.
var ErrIncompatible = errors.New("the object does not fit this program's type (an informer of this program lists it " +
	"anew; to read it as it is, use the program that wrote it, or one with the same Go type and codec)")

// RecordError is the error for an unreadable record. It wraps ErrDamaged, or ErrIncompatible if a newer program wrote
// the record. A caller that reads records in key order can continue after Key.
type RecordError struct {
	Key string
	Err error
}

func (e *RecordError) Error() string { return e.Err.Error() } // The text of Err contains Key.
func (e *RecordError) Unwrap() error { return e.Err }
