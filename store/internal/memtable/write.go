package memtable

import (
	"context"
	"errors"
	"fmt"

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
	// Compressed is Payload compressed with Dict, as the file gets it; nil if it gets Payload. Only who commits uses
	// them.
	Compressed []byte
	Dict       *compress.Dictionary
	Terms      map[string][]string
	// order is the place of the write among all that the table was given.
	order uint64
	// SameObject: the file has the same state of the object, and only how it is stored changes.
	SameObject bool
	// gone is the delete, not committed either, of the object that the file has under the key; nil if there was none
	// before x.
	gone *Write
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
	if x.gone != nil {
		n += x.gone.PayloadSize
	}
	for name, values := range x.Terms {
		n += len(name) + 48
		for _, value := range values {
			n += len(value) + 16
		}
	}
	return n
}

// LastOf returns the delete of the object with that UID which carried its last state, encoded; nil if x knows of none.
func (x *Write) LastOf(uid string) *Write {
	switch {
	case x == nil || uid == "":
	case x.Del && x.UID == uid && x.Payload != nil:
		return x
	case x.gone != nil && x.gone.UID == uid && x.gone.Payload != nil:
		return x.gone
	}
	return nil
}

// Follow notes what x comes after that has not been committed: the first delete, which is the one of the object in the
// file.
func (x *Write) Follow(before *Write) {
	switch {
	case before.gone != nil:
		x.gone = before.gone
	case before.Del && before.Obj != nil:
		x.gone = before
	}
}
