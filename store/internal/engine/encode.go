package engine

import (
	"cmp"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

// Encoder turns ops into writes of the memtable: it sets their keys, payloads and index terms. It calls user code, so
// the caller must hold no lock.
type Encoder struct {
	KeyFunc cache.KeyFunc
	Codec   codec.Codec // Codec is the collection's codec; nil for writes without payloads.
	Set     *IndexSet
	// Deletes is true if objects of deletes are encoded too, for durable handlers.
	Deletes bool
	// Decodes is true if undecoded objects are decoded, because they will be needed at once.
	Decodes bool
}

type encoded struct {
	writes  []*Write // writes are in the order of the ops, without the skipped ops.
	skipped []entry.Skipped
	// leftOut holds, by key, the objects whose last op was skipped: the store has an older state of them than the server.
	// Objects without a key are under "".
	leftOut map[string]entry.LeftOut
}

// encode turns ops into writes. It adds an op that cannot be encoded to leftOut, and to skipped if it is reportable.
func (e Encoder) encode(ops []entry.Op) encoded {
	b := encoded{writes: make([]*Write, 0, len(ops)), leftOut: map[string]entry.LeftOut{}}
	writes, errs := make([]*Write, len(ops)), make([]error, len(ops))
	for n, op := range ops {
		writes[n], errs[n] = e.identify(op)
	}
	e.decode(writes, errs)
	for n, x := range writes {
		err := errs[n]
		switch {
		case err != nil:
		case !x.Del:
			err = e.fill(x)
		case e.Deletes && x.Obj != nil:
			_ = encodeWrite(x, e.Codec) // After an error, durable handlers receive the stored object.
		}
		if err != nil {
			if reportable(err) {
				b.skipped = append(b.skipped, entry.Skipped{Key: x.Key, Err: err})
			}
			l := leftOutOf(x, err)
			b.leftOut[l.Key] = l
			continue
		}
		if _, skipped := b.leftOut[x.Key]; skipped {
			x.Event = ""
			delete(b.leftOut, x.Key)
		}
		b.writes = append(b.writes, x)
	}
	return b
}

// identify returns a write with the key, UID and resourceVersion of the op's object, even if it fails, as far as known.
func (e Encoder) identify(op entry.Op) (*Write, error) {
	if l := op.LeftOut; op.Type == entry.LeaveOut {
		return &Write{Key: l.Key, UID: l.UID, RV: l.ResourceVersion}, refuse(l.Reason, nil)
	}
	x := &Write{Del: op.Type == entry.Delete, Event: op.Event}
	err := base.Try("the key function", func() (err error) {
		x.Key, err = e.KeyFunc(op.Object)
		return err
	})
	if err != nil {
		return x, refuse(entry.LeftOutKey, fmt.Errorf("key of a %T: %w", op.Object, err))
	}
	n := len(x.Key)
	obj := op.Object
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	x.Obj, _ = obj.(runtime.Object)
	if n == 0 || n > entry.MaxKey {
		return x, e.unstorable(x)
	}
	x.Typed = isTyped(x.Obj)
	if u, ok := x.Obj.(*entry.Undecoded); ok && u.Err() != nil {
		return x, e.undecodable(x, u)
	} else if ok && e.Codec != nil && (!x.Del || e.Deletes) {
		x.Payload, x.PayloadSize = u.Payload, len(u.Payload)
		if u.Encoding != e.Codec.Name() {
			x.Encoding = u.Encoding
		}
	}
	if x.Del {
		x.UID, x.RV = IdentityOf(x.Obj)
		return x, nil
	}
	if x.Obj == nil {
		return x, fmt.Errorf("object %q: a %T cannot be stored", x.Key, op.Object)
	}
	if _, err := meta.Accessor(x.Obj); err != nil {
		return x, fmt.Errorf("object %q: a %T cannot be stored: %w", x.Key, op.Object, err)
	}
	x.UID, x.RV = IdentityOf(x.Obj)
	return x, nil
}

// unstorable sets the key of a write whose key is empty or too long to a RefKey. It returns the error for which the
// object is left out. For a delete it returns nil: the delete applies to the RefKey.
func (e Encoder) unstorable(x *Write) error {
	n := len(x.Key)
	x.Key = entry.RefKey(x.Key)
	x.UID, x.RV = IdentityOf(x.Obj)
	if x.Del && n > 0 {
		x.Obj = nil
		return nil
	}
	return refuse(entry.LeftOutKey, fmt.Errorf("a key of %d bytes, %q: only 1 to %d bytes can be stored", n, x.Key,
		entry.MaxKey))
}

// isTyped reports whether the payload of obj depends on its Go type, and is not as the API server sent it.
func isTyped(obj runtime.Object) bool {
	u, ok := obj.(*entry.Undecoded)
	return !ok || u.Typed
}

// undecodable returns the error for an object to leave out. For a delete it returns nil, and drops the object.
func (e Encoder) undecodable(x *Write, u *entry.Undecoded) error {
	x.UID, x.RV = u.UID, u.ResourceVersion
	if x.Del {
		x.Obj = nil
		return nil
	}
	return refuse(entry.LeftOutCodec, Unreadable(x.Key, u.Err()))
}

func (e Encoder) fill(x *Write) error {
	if err := e.payload(x); err != nil {
		return err
	}
	return e.index(x)
}

func (e Encoder) payload(x *Write) error {
	if e.Codec == nil {
		return nil
	}
	if err := encodeWrite(x, e.Codec); err != nil {
		return refuse(entry.LeftOutCodec, fmt.Errorf("object %q: %w", x.Key, err))
	}
	return nil
}

func (e Encoder) index(x *Write) error {
	terms, err := e.Set.Terms(x.Obj)
	if err != nil {
		return refuse(entry.LeftOutIndex, fmt.Errorf("object %q: %w", x.Key, err))
	}
	x.Terms = terms
	return nil
}

// decode decodes the undecoded objects of writes, if they are needed, on all cores. If an object cannot be decoded,
// decode sets its error; a delete then only loses its object.
func (e Encoder) decode(writes []*Write, errs []error) {
	if !e.Decodes && e.Codec != nil && (e.Set == nil || !e.Set.ReadsObjects()) {
		return
	}
	cost := 0
	for _, x := range writes {
		if u, ok := x.Obj.(*entry.Undecoded); ok {
			cost += 4<<10 + u.Size()
		}
	}
	if cost == 0 {
		return
	}
	base.Parallel(len(writes), cost, func(n int) {
		x := writes[n]
		if _, ok := x.Obj.(*entry.Undecoded); !ok || errs[n] != nil {
			return
		}
		var obj runtime.Object
		err := base.Try("the codec", func() (err error) {
			obj, err = x.Decoded()
			return err
		})
		switch {
		case err == nil:
			x.Obj = obj
		case x.Del:
			x.Obj = nil
		default:
			errs[n] = refuse(entry.LeftOutCodec, err)
		}
	})
}

// Decode returns the object decoded from the payload of x. Without a codec it returns the object of x, decoded if
// necessary. Its errors wrap entry.ErrIncompatible, and never ErrDamaged.
func (e Encoder) Decode(x *Write) (runtime.Object, error) {
	if e.Codec == nil {
		return x.Decoded()
	}
	obj, err := codec.Decode(e.Codec, cmp.Or(x.Encoding, e.Codec.Name()), x.Payload)
	if err != nil {
		return nil, Unreadable(x.Key, err)
	}
	return obj, nil
}

// encodeWrite sets the payload of x and its size, by a call of the codec. It does nothing for a write with a payload.
// If the codec fails or panics, x stays without a payload.
func encodeWrite(x *Write, codec codec.Codec) error {
	if x.Payload != nil {
		return nil
	}
	err := base.Try("the codec", func() (err error) {
		x.Payload, err = codec.Append(nil, x.Obj)
		return err
	})
	if err != nil {
		x.Payload = nil
	}
	x.PayloadSize = len(x.Payload)
	return err
}

// IdentityOf returns the UID and resourceVersion of an object. Both are "" if obj is nil or has no metadata.
func IdentityOf(obj runtime.Object) (uid, rv string) {
	if obj == nil {
		return "", ""
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return "", ""
	}
	return string(m.GetUID()), m.GetResourceVersion()
}

var errBatchOps = errors.New("the batch that commits a list must have no ops; give them to Replacement.Event")
