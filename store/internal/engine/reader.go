package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
)

// Reader has the read methods that a Collection and a View share. They need no index function.
type Reader struct {
	File  *boltfile.File
	Name  string // Name is the name of the collection's bucket.
	Codec codec.Codec
	// Memtable has the uncommitted writes; nil for a View, which sees only committed changes.
	Memtable *Memtable[Covers]
	// CustomKeys is true if keys may have another form than namespace/name.
	CustomKeys bool
	Coder      *crypt.Coder // Coder opens and seals the payloads of records.
}

func (r *Reader) View(ctx context.Context, fn func(b *bolt.Bucket) error) error {
	return r.File.View(ctx, func(tx *bolt.Tx) error {
		b, err := CollectionBucket(tx, r.Name)
		if err != nil {
			return err
		}
		return fn(b)
	})
}

// ViewObjects calls fn with the objects bucket in a read transaction, and with a View of the memtable.
func (r *Reader) ViewObjects(ctx context.Context, fn func(objects *bolt.Bucket, over *Captured) error) error {
	return r.ViewMerged(ctx, nil, func(b *bolt.Bucket, over *Captured) error {
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		return fn(objects, over)
	})
}

func (r *Reader) Objects(b *bolt.Bucket) (*bolt.Bucket, error) {
	objects := b.Bucket(format.BucketObjects)
	if objects == nil {
		return nil, fmt.Errorf("collection %s has no objects bucket: %w", r.Name, entry.ErrDamaged)
	}
	return objects, nil
}

func (r *Reader) Info(ctx context.Context) (entry.Info, error) {
	var s CollectionState
	err := r.viewCaptured(ctx, r.Memtable.CaptureInfo, func(b *bolt.Bucket, over *Captured) (err error) {
		s, err = GetState(b, r.Name)
		if err == nil && over.Dirty {
			s.Follow(over.Info.Clone())
			s.Objects = over.Info.Objects
		}
		return err
	})
	return s.Info, err
}

// Get returns the object with this key, or nil.
func (r *Reader) Get(ctx context.Context, key string) (runtime.Object, error) {
	if r.Memtable != nil {
		if x := r.Memtable.Get(key); x != nil {
			return x.Read(ctx)
		}
	}
	var obj runtime.Object
	err := r.View(ctx, func(b *bolt.Bucket) error {
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		if data := objects.Get([]byte(key)); data != nil {
			obj, err = r.Coder.Object(objects, key, data)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// scanAll calls fn with every record of the file, or with the memtable's write that replaces the record, in key order
// and in one transaction. After an error of fn it continues, and returns the first error at the end. It fails if the
// number of records is not the one in the collection's info, since bbolt does not notice a damaged number of elements
// in a leaf.
func (r *Reader) scanAll(
	ctx context.Context, fn func(objects *bolt.Bucket, key string, data []byte, x *Write) error,
) error {
	return r.ViewMerged(ctx, nil, func(b *bolt.Bucket, over *Captured) error {
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		st, err := GetState(b, r.Name)
		if err != nil {
			return err
		}
		var bad error
		s := ScanMerged(objects, over, "")
		for key, data, x, ok := s.Next(); ok; key, data, x, ok = s.Next() {
			if err := fn(objects, key, data, x); err != nil && bad == nil {
				bad = err
			}
		}
		return cmp.Or(s.Err(), r.Counted(s.records, st.Objects), bad)
	})
}

// Counted returns an error if n, the number of records read, is not objects, the number in the collection's info.
func (r *Reader) Counted(n, objects int) error {
	if n == objects {
		return nil
	}
	return fmt.Errorf("collection %s has %d objects, and %d are found: %w", r.Name, objects, n, entry.ErrDamaged)
}

func (r *Reader) List(ctx context.Context) ([]runtime.Object, error) {
	objs := []runtime.Object{}
	err := r.scanAll(ctx, func(objects *bolt.Bucket, key string, data []byte, x *Write) error {
		obj, err := r.scanned(objects, key, data, x)
		if err == nil {
			objs = append(objs, obj)
		}
		return err
	})
	return objs, err
}

// scanned returns the object of the write x, or the object decoded from the record data if x is nil.
func (r *Reader) scanned(objects *bolt.Bucket, key string, data []byte, x *Write) (runtime.Object, error) {
	if x != nil {
		return x.Decoded()
	}
	return r.Coder.Object(objects, key, data)
}

func (r *Reader) Keys(ctx context.Context) ([]string, error) {
	keys := []string{}
	err := r.scanAll(ctx, func(_ *bolt.Bucket, key string, _ []byte, _ *Write) error {
		if len(key) > entry.MaxKey {
			return fmt.Errorf("key %s in collection %s: %w", base.PrintableKey(key), r.Name, entry.ErrDamaged)
		}
		keys = append(keys, key)
		return nil
	})
	return keys, err
}

// NoteScope sets info.Resource.Namespaced if the first key of the collection has a namespace. It does nothing if
// Namespaced is set, or if Newest has references, whose keys show the scope. It ignores damage.
func (r *Reader) NoteScope(ctx context.Context, info *entry.Info) error {
	if info.Resource.Namespaced || info.Objects == 0 || len(info.Newest) > 0 {
		return nil
	}
	err := r.View(ctx, func(b *bolt.Bucket) error {
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		keys := boltfile.ScanAfter(objects, "")
		first, _ := keys.Next()
		info.Resource.Namespaced = bytes.Contains(first, []byte("/"))
		return keys.Err
	})
	if errors.Is(err, entry.ErrDamaged) || errors.Is(err, ErrNoCollection) {
		return nil
	}
	return err
}

// CountedNow returns an error if n is not the number of objects in the current info. The caller blocks writers.
func (r *Reader) CountedNow(ctx context.Context, n int) error {
	now, dirty := r.Memtable.Current()
	return r.View(ctx, func(b *bolt.Bucket) error {
		objects := now.Objects
		if !dirty {
			st, err := GetState(b, r.Name)
			if err != nil {
				return err
			}
			objects = st.Objects
		}
		return r.Counted(n, objects)
	})
}

// Refs returns the identities of at most limit objects whose keys follow after, in key order.
func (r *Reader) Refs(ctx context.Context, after string, limit int) (refs []entry.ObjectRef, err error) {
	err = r.ViewObjects(ctx, func(objects *bolt.Bucket, over *Captured) error {
		refs = nil
		s := ScanMerged(objects, over, after)
		for key, data, x, ok := s.Next(); ok && len(refs) < limit; key, data, x, ok = s.Next() {
			ref, err := r.RefOf(key, data, x)
			if err != nil {
				return err
			}
			refs = append(refs, ref)
		}
		return s.Err()
	})
	return refs, err
}
