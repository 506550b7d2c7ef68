package memtable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/compress"
)

// Write is one object on its way into the file: keyed, encoded and indexed
// before any transaction begins.
type Write struct {
	Key string
	Del bool
	// Obj may be an *entry.Undecoded: see Decoded. For a delete it is what the event carried, or nil.
	Obj     runtime.Object
	UID, RV string
	// Event is Op.Event; empty if the op before it, of the same key and batch, was skipped.
	Event cache.DeltaType
	// Payload is what the codec has made of obj, before anybody else was given obj, and PayloadSize how long it is. Of
	// a delete it is that of the last state, and nil if nobody wants that.
	Payload     []byte
	PayloadSize int
	// Encoding is the name of the codec that wrote Payload, if it was not the collection's.
	Encoding string
	// Typed is true if the payload depends on the Go type; see entry.Undecoded.
	Typed bool
	// Compressed is Payload compressed with Dict, as the file gets it; nil if it gets Payload. Only who commits uses
	// them.
	Compressed []byte
	Dict       *compress.Dictionary
	Terms      map[string][]string
	// Order is the place of the write among all that the collection was given; it grows.
	Order uint64
	// Since is the resourceVersion since which there is an object under the key, without a break; "" if the file has it,
	// or nobody. A delete has that of what it deletes.
	Since string
	// SameObject: the file has the same state of the object, and only how it is stored changes.
	SameObject bool
	// gone are the deletes of the key before x that are not committed either, in order, without their objects.
	gone []*Write
}

// Decoded returns Obj, decoded. Its error is that of Unreadable.
func (x *Write) Decoded() (runtime.Object, error) { return Decoded(x.Key, x.Obj) }

// Decoded returns an object that is not in a file, decoded. Its error is that of Unreadable.
func Decoded(key string, obj runtime.Object) (runtime.Object, error) {
	obj, err := entry.Decoded(obj)
	if err != nil {
		return nil, Unreadable(key, err)
	}
	return obj, nil
}

// Unreadable is the error for an object that is not in a file and cannot be decoded, because of err. It wraps
// entry.ErrIncompatible, and never entry.ErrDamaged: no file is damaged.
func Unreadable(key string, err error) error {
	switch {
	case errors.Is(err, entry.ErrDamaged):
		err = fmt.Errorf("%w: %v", entry.ErrIncompatible, err) //nolint:errorlint // it must not wrap ErrDamaged
	case !errors.Is(err, entry.ErrIncompatible):
		err = fmt.Errorf("%w: %w", entry.ErrIncompatible, err)
	}
	return fmt.Errorf("object %s: %w", printable.Key(key), err)
}

// Left returns what the write leaves under its key, perhaps undecoded; nil if it deletes.
func (x *Write) Left() runtime.Object {
	if x.Del {
		return nil
	}
	return x.Obj
}

// Entry returns the encoded object; nil if there is no payload. encoding is that of the collection's codec.
func (x *Write) Entry(encoding string) *entry.Entry {
	if x.Payload == nil {
		return nil
	}
	return &entry.Entry{Key: x.Key, UID: x.UID, ResourceVersion: x.RV, Encoding: cmp.Or(x.Encoding, encoding),
		Payload: x.Payload}
}

// Read returns what Left does, decoded. It fails if ctx has ended.
func (x *Write) Read(ctx context.Context) (runtime.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return Decoded(x.Key, x.Left())
}

// Size is roughly what x takes in memory, and in a transaction.
func (x *Write) Size() int {
	n := 128 + len(x.Key) + len(x.UID) + len(x.RV) + len(x.Encoding) + x.PayloadSize
	for _, before := range x.gone {
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

// Follow notes what x comes after that has not been committed.
func (x *Write) Follow(before *Write) {
	first := x
	if len(x.gone) > 0 {
		first = x.gone[0]
	}
	gone := before.gone
	switch {
	case !before.Del:
		first.Since = cmp.Or(first.Since, before.Since)
	case !first.Del:
		first.Since = cmp.Or(first.Since, first.RV)
		fallthrough
	default:
		d := *before
		d.gone, d.Obj, d.Terms = nil, nil, nil // what is committed by then, and what nobody wants of a delete
		gone = append(gone, &d)                // no other write follows before
	}
	x.gone = append(gone, x.gone...)
}

// after drops the deletes up to a place: they are in the file.
func (x *Write) after(committed uint64) {
	x.gone = slices.Clone(x.gone[countUpTo(x.gone, committed):]) // readers of x's predecessor have the rest
}

func countUpTo(writes []*Write, order uint64) (n int) {
	for n < len(writes) && writes[n].Order <= order {
		n++
	}
	return n
}
