package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/crypt"
)

// Write is one uncommitted write of an object. It has its key, payload and terms before any transaction begins.
type Write struct {
	Key string
	Del bool
	// Obj is the object after the write, perhaps an *entry.Undecoded. For a delete it is the event's object, or nil.
	Obj     runtime.Object
	UID, RV string
	// Event is the entry.Op.Event of the write. It is empty if the previous op of the same key in the batch was skipped.
	Event cache.DeltaType
	// Payload is the encoded Obj, made before other code gets Obj. PayloadSize is its length. For a delete, Payload is the
	// last state, or nil if that is not needed.
	Payload     []byte
	PayloadSize int
	// Encoding is the name of the codec that wrote Payload; "" for the collection's codec.
	Encoding string
	// Typed is true if the payload was encoded from a Go struct, so it lacks fields that the struct lacks.
	Typed bool
	// Compressed is Payload compressed with Dict, as the file stores it; nil if the file stores Payload itself. Only the
	// commit uses Compressed and Dict.
	Compressed []byte
	Dict       *crypt.Dictionary
	Terms      map[string][]string
	// Order is the sequence number of the write among all writes of the collection.
	Order uint64
	// Since is the resourceVersion since which the key has had an object without interruption; "" if only the file has it,
	// or if unknown. A delete has the Since of the deleted object.
	Since string
	// SameObject is true if the file has the same state of the object, and only its stored form changes.
	SameObject bool
	// deletes holds the uncommitted deletes of the key before this write, in order, without their objects.
	deletes []*Write
}

// Decoded returns the decoded Obj. Its errors wrap entry.ErrIncompatible, and never entry.ErrDamaged.
func (x *Write) Decoded() (runtime.Object, error) { return Decoded(x.Key, x.Obj) }

// Decoded returns the decoded obj, which is in memory. Errors are results of Unreadable, never damage of the file.
func Decoded(key string, obj runtime.Object) (runtime.Object, error) {
	obj, err := entry.Decoded(obj)
	if err != nil {
		return nil, Unreadable(key, err)
	}
	return obj, nil
}

// Unreadable returns the error for an object in memory that cannot be decoded because of err. It wraps
// entry.ErrIncompatible, and never entry.ErrDamaged, since no file is damaged.
func Unreadable(key string, err error) error {
	switch {
	case errors.Is(err, entry.ErrDamaged):
		err = fmt.Errorf("%w: %v", entry.ErrIncompatible, err) //nolint:errorlint // The error must not wrap ErrDamaged.
	case !errors.Is(err, entry.ErrIncompatible):
		err = fmt.Errorf("%w: %w", entry.ErrIncompatible, err)
	}
	return fmt.Errorf("object %s: %w", base.PrintableKey(key), err)
}

// Left returns the object under the key after the write, perhaps undecoded; nil for a delete.
func (x *Write) Left() runtime.Object {
	if x.Del {
		return nil
	}
	return x.Obj
}

// Entry returns the encoded object, or nil without a payload. encoding is the name of the collection's codec.
func (x *Write) Entry(encoding string) *entry.Entry {
	if x.Payload == nil {
		return nil
	}
	return &entry.Entry{Key: x.Key, UID: x.UID, ResourceVersion: x.RV, Encoding: cmp.Or(x.Encoding, encoding),
		Payload: x.Payload}
}

// Read returns the decoded object under the key after the write; nil for a delete. It fails if ctx has ended.
func (x *Write) Read(ctx context.Context) (runtime.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return Decoded(x.Key, x.Left())
}

// Size returns the approximate size of x in memory and in a transaction, in bytes.
func (x *Write) Size() int {
	n := 128 + len(x.Key) + len(x.UID) + len(x.RV) + len(x.Encoding) + x.PayloadSize
	for _, before := range x.deletes {
		n += 128 + before.PayloadSize
	}
	for name, values := range x.Terms {
		n += len(name) + 48
		for _, value := range values {
			n += len(value) + 16
		}
	}
	return n
}

// Follow makes x the successor of before, the previous uncommitted write of the key: x keeps the uncommitted deletes.
func (x *Write) Follow(before *Write) {
	first := x
	if len(x.deletes) > 0 {
		first = x.deletes[0]
	}
	deletes := before.deletes
	switch {
	case !before.Del:
		first.Since = cmp.Or(first.Since, before.Since)
	case !first.Del:
		first.Since = cmp.Or(first.Since, first.RV)
		fallthrough
	default:
		d := *before
		d.deletes, d.Obj, d.Terms = nil, nil, nil // A kept delete needs no object and no terms.
		deletes = append(deletes, &d)             // The slice of before may grow: only x follows before.
	}
	x.deletes = append(deletes, x.deletes...)
}

// dropCommitted removes the deletes with an Order up to committed, which the file has.
func (x *Write) dropCommitted(committed uint64) {
	x.deletes = slices.Clone(x.deletes[countUpTo(x.deletes, committed):]) // Readers may hold the old slice.
}

func countUpTo(writes []*Write, order uint64) (n int) {
	for n < len(writes) && writes[n].Order <= order {
		n++
	}
	return n
}

// CompressPayloads compresses the uncompressed payloads of writes, if that makes them shorter. It does nothing if c is
// nil.
func CompressPayloads(c *crypt.Compressor, writes []*Write) {
	if c == nil {
		return
	}
	var todo []*Write
	var payloads [][]byte
	for _, x := range writes {
		if !x.Del && x.Dict == nil {
			todo, payloads = append(todo, x), append(payloads, x.Payload)
		}
	}
	compressed, dict := c.Compress(payloads)
	for i, x := range todo {
		if compressed[i] != nil {
			x.Compressed, x.Dict = compressed[i], dict
		}
	}
}
