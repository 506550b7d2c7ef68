package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
)

// A page of Iterate ends at either bound.
const (
	iterateObjects = 500
	iterateBytes   = 4 << 20
)

// reader is what a Collection and a View have in common: the methods that need
// no index function.
type reader struct {
	store *Store
	name  string // of the bucket
	codec Codec
	// customKeys says that keys need not be namespace/name.
	customKeys bool
}

// view calls fn with the collection's bucket in a read transaction.
func (r *reader) view(ctx context.Context, fn func(b *bolt.Bucket) error) error {
	return r.store.view(ctx, func(tx *bolt.Tx) error {
		b, err := collectionBucket(tx, r.name)
		if err != nil {
			return err
		}
		return fn(b)
	})
}

// viewObjects calls fn with the bucket of objects in a read transaction.
func (r *reader) viewObjects(ctx context.Context, fn func(objects *bolt.Bucket) error) error {
	return r.view(ctx, func(b *bolt.Bucket) error {
		objects, err := r.objects(b)
		if err != nil {
			return err
		}
		return fn(objects)
	})
}

func (r *reader) objects(b *bolt.Bucket) (*bolt.Bucket, error) {
	objects := b.Bucket(bucketObjects)
	if objects == nil {
		return nil, fmt.Errorf("collection %s has no objects bucket: %w", r.name, ErrDamaged)
	}
	return objects, nil
}

// decode returns the object of a record.
func (r *reader) decode(key string, data []byte) (runtime.Object, error) {
	encoding, payload, err := parsePayload(r.name, key, data)
	if err != nil {
		return nil, err
	}
	return r.decodePayload(key, header{Encoding: encoding}, payload)
}

func (r *reader) decodePayload(key string, h header, payload []byte) (runtime.Object, error) {
	obj, err := decodePayload(r.codec, h.Encoding, payload)
	if errors.Is(err, ErrDamaged) {
		// The checksum was right: these are the bytes that were written, so the file is not to blame.
		err = fmt.Errorf("%w: %v", ErrIncompatible, err) //nolint:errorlint // it must not wrap ErrDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("record %s in collection %s: %w", legible(key), r.name, err)
	}
	return obj, nil
}

// Info returns the collection's state.
func (r *reader) Info(ctx context.Context) (Info, error) {
	var s state
	err := r.view(ctx, func(b *bolt.Bucket) (err error) {
		s, err = getState(b, r.name)
		return err
	})
	return s.Info, err
}

// Get returns the object with that key, or nil if there is none.
func (r *reader) Get(ctx context.Context, key string) (runtime.Object, error) {
	var obj runtime.Object
	err := r.viewObjects(ctx, func(objects *bolt.Bucket) (err error) {
		if data := objects.Get([]byte(key)); data != nil {
			obj, err = r.decode(key, data)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// List returns every object, in key order.
func (r *reader) List(ctx context.Context) ([]runtime.Object, error) {
	_, objs, err := r.listWithKeys(ctx)
	return objs, err
}

func (r *reader) listWithKeys(ctx context.Context) (keys []string, objs []runtime.Object, err error) {
	keys, objs = []string{}, []runtime.Object{}
	err = r.viewObjects(ctx, func(objects *bolt.Bucket) error {
		var bad error
		s := scanAfter(objects, "")
		for k, data := s.next(); k != nil; k, data = s.next() {
			key := string(k)
			obj, err := r.decode(key, data)
			if err == nil {
				keys, objs = append(keys, key), append(objs, obj)
			} else if bad == nil {
				bad = err
			}
		}
		if s.err != nil {
			return s.err
		}
		return bad
	})
	return keys, objs, err
}

// Keys returns every key, in order.
func (r *reader) Keys(ctx context.Context) ([]string, error) {
	keys := []string{}
	err := r.viewObjects(ctx, func(objects *bolt.Bucket) error {
		s := scanAfter(objects, "")
		var bad error
		for k, _ := s.next(); k != nil; k, _ = s.next() {
			if len(k) > maxKeyLen {
				bad = fmt.Errorf("key %s in collection %s: %w", legible(string(k)), r.name, ErrDamaged)
				continue
			}
			keys = append(keys, string(k))
		}
		return errors.Join(s.err, bad)
	})
	return keys, err
}

// Iterate calls fn for each object whose key is after the given one; see Interface.
func (r *reader) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	for {
		keys, objs, more, err := r.page(ctx, after)
		if err != nil {
			return err
		}
		for i, key := range keys {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(key, objs[i]); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		after = keys[len(keys)-1]
	}
}

// page reads the objects whose keys follow the given one. more is set if there may be others.
func (r *reader) page(ctx context.Context, after string) (keys []string, objs []runtime.Object, more bool, err error) {
	err = r.viewObjects(ctx, func(objects *bolt.Bucket) error {
		size := 0
		s := scanAfter(objects, after)
		for k, data := s.next(); k != nil; k, data = s.next() {
			if len(keys) == iterateObjects || size >= iterateBytes {
				more = true
				return nil
			}
			obj, err := r.decode(string(k), data)
			if err != nil {
				return err
			}
			keys, objs, size = append(keys, string(k)), append(objs, obj), size+len(data)
		}
		return s.err
	})
	return keys, objs, more, err
}

// seekAfter moves the cursor to the first key after the given one. Keys are
// never empty, so "" is before the first.
func seekAfter(c *bolt.Cursor, after string) (k, v []byte) {
	k, v = c.Seek([]byte(after))
	if k != nil && bytes.Equal(k, []byte(after)) {
		return c.Next()
	}
	return k, v
}
