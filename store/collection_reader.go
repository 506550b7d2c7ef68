package store

import (
	"cmp"
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/body"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// reader is the part that a Collection and a View have in common: the methods that need no index function.
type reader struct {
	store *Store
	name  string // name of the collection's bucket
	codec codec.Codec
	// memtable has what is not committed; nil for a View, which sees committed changes only.
	memtable *memtable.Table[covers]
	// customKeys says that keys may have another form than namespace/name.
	customKeys bool
	coder      *body.Coder // opens the bodies of records, and seals them
}

// reader returns the reader of the collection in the bucket of that name. The codec is nil if nothing is decoded.
func (s *Store) reader(name string, c codec.Codec) reader {
	return reader{store: s, name: name, codec: c, coder: body.New(name, c, &s.keys)}
}

// view calls fn with the collection's bucket in a read transaction.
func (r *reader) view(ctx context.Context, fn func(b *bolt.Bucket) error) error {
	return r.store.file.View(ctx, func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, r.name)
		if err != nil {
			return err
		}
		return fn(b)
	})
}

// viewObjects calls fn with the bucket of objects in a read transaction, and with the state of the memtable over it.
func (r *reader) viewObjects(ctx context.Context, fn func(objects *bolt.Bucket, over *captured) error) error {
	return r.viewOver(ctx, nil, func(b *bolt.Bucket, over *captured) error {
		objects, err := r.objects(b)
		if err != nil {
			return err
		}
		return fn(objects, over)
	})
}

func (r *reader) objects(b *bolt.Bucket) (*bolt.Bucket, error) {
	objects := b.Bucket(format.BucketObjects)
	if objects == nil {
		return nil, fmt.Errorf("collection %s has no objects bucket: %w", r.name, entry.ErrDamaged)
	}
	return objects, nil
}

// Info returns the collection's state.
func (r *reader) Info(ctx context.Context) (entry.Info, error) {
	var s state
	err := r.viewCaptured(ctx, r.memtable.CaptureInfo, func(b *bolt.Bucket, over *captured) (err error) {
		s, err = getState(b, r.name)
		if err == nil && over.Dirty {
			s.follow(over.Info.Clone())
			s.Objects = over.Info.Objects
		}
		return err
	})
	return s.Info, err
}

// Get returns the object with that key, or nil if there is none.
func (r *reader) Get(ctx context.Context, key string) (runtime.Object, error) {
	if r.memtable != nil {
		if x := r.memtable.Get(key); x != nil {
			return x.Object(), ctx.Err()
		}
	}
	var obj runtime.Object
	err := r.view(ctx, func(b *bolt.Bucket) error {
		objects, err := r.objects(b)
		if err != nil {
			return err
		}
		if data := objects.Get([]byte(key)); data != nil {
			obj, err = r.coder.Object(objects, key, data)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// scanAll calls fn with every record of the file, or write of the memtable in its place, in key order and in one
// transaction. It goes on after an error of fn, and returns the first one. It fails if the file does not have as many
// records as its state says: bbolt does not notice a leaf whose number of elements is damaged.
func (r *reader) scanAll(
	ctx context.Context, fn func(objects *bolt.Bucket, key string, data []byte, x *memtable.Write) error,
) error {
	return r.viewOver(ctx, nil, func(b *bolt.Bucket, over *captured) error {
		objects, err := r.objects(b)
		if err != nil {
			return err
		}
		st, err := getState(b, r.name)
		if err != nil {
			return err
		}
		var bad error
		s := scanOver(objects, over, "")
		for key, data, x, ok := s.next(); ok; key, data, x, ok = s.next() {
			if err := fn(objects, key, data, x); err != nil && bad == nil {
				bad = err
			}
		}
		return cmp.Or(s.err(), r.counted(s.records, st.Objects), bad)
	})
}

// counted returns an error if n is not the number of objects that the collection's state says.
func (r *reader) counted(n, objects int) error {
	if n == objects {
		return nil
	}
	return fmt.Errorf("collection %s has %d objects, and %d are found: %w", r.name, objects, n, entry.ErrDamaged)
}

// List returns every object, in key order.
func (r *reader) List(ctx context.Context) ([]runtime.Object, error) {
	objs := []runtime.Object{}
	err := r.scanAll(ctx, func(objects *bolt.Bucket, key string, data []byte, x *memtable.Write) error {
		obj, err := r.scanned(objects, key, data, x)
		if err == nil {
			objs = append(objs, obj)
		}
		return err
	})
	return objs, err
}

// scanned returns the object at which an overScan is: the object of x, or if x is nil the one decoded from data.
func (r *reader) scanned(objects *bolt.Bucket, key string, data []byte, x *memtable.Write) (runtime.Object, error) {
	if x != nil {
		return x.Obj, nil
	}
	return r.coder.Object(objects, key, data)
}

// Keys returns every key, in order.
func (r *reader) Keys(ctx context.Context) ([]string, error) {
	keys := []string{}
	err := r.scanAll(ctx, func(_ *bolt.Bucket, key string, _ []byte, _ *memtable.Write) error {
		if len(key) > format.MaxKeyLen {
			return fmt.Errorf("key %s in collection %s: %w", printable.Key(key), r.name, entry.ErrDamaged)
		}
		keys = append(keys, key)
		return nil
	})
	return keys, err
}
