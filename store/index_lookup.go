package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/larder-dev/larder/store/internal/memtable"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/resident"
)

// indexReader answers look-ups in indexes. residents and fileIndexes implement it.
type indexReader interface {
	byValues(ctx context.Context, index string, values []string) ([]runtime.Object, error)
	IndexKeys(ctx context.Context, index, value string) ([]string, error)
	IndexValues(ctx context.Context, index string) ([]string, error)
}

// fileIndexes are the indexes of a collection in the file.
type fileIndexes struct {
	// view calls fn with the index want.Index, in a read transaction.
	view    func(ctx context.Context, want memtable.Lookup, fn func(indexView) error) error
	decoded *resident.Bounded // the decoded objects in memory; may be nil
}

func (f fileIndexes) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	keys := []string{}
	err := f.view(ctx, memtable.Lookup{Index: index, Values: []string{value}}, func(v indexView) error {
		return v.keys(value, func(key string) error {
			keys = append(keys, key)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

func (f fileIndexes) IndexValues(ctx context.Context, index string) ([]string, error) {
	values := map[string]bool{}
	err := f.view(ctx, memtable.Lookup{Index: index}, func(v indexView) error {
		return v.values(func(value string) { values[value] = true })
	})
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(values)), nil
}

func (f fileIndexes) byValues(ctx context.Context, index string, values []string) ([]runtime.Object, error) {
	objs, seen := []runtime.Object{}, map[string]bool{}
	if values == nil {
		values = []string{} // no values; nil would mean all of them
	}
	err := f.view(ctx, memtable.Lookup{Index: index, Values: values}, func(v indexView) error {
		for _, value := range values {
			err := v.keys(value, func(key string) error {
				if seen[key] {
					return nil
				}
				seen[key] = true
				obj, err := v.objectIn(f.decoded, key)
				objs = append(objs, obj)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return objs, nil
}

// lookUp calls fn in a read transaction with the index want.Index, which must be ready, and the matching writes of the
// memtable.
func (c *Collection) lookUp(ctx context.Context, want memtable.Lookup, fn func(indexView) error) error {
	return c.viewOver(ctx, &want, func(b *bolt.Bucket, over *captured) error {
		v, err := c.indexView(b, want.Index)
		if err != nil {
			return err
		}
		v.over, v.sealed = over, c.sealing.Load()
		return fn(v)
	})
}

// indexView is an index and its objects in one read transaction, with the memtable over them.
type indexView struct {
	r       *reader
	name    string
	objects *bolt.Bucket
	index   *bolt.Bucket
	over    *captured
	// sealed is true if records of the collection are sealed; older ones may be in plain text.
	sealed bool
}

func (r *reader) indexView(b *bolt.Bucket, index string) (indexView, error) {
	objects, err := r.objects(b)
	if err != nil {
		return indexView{}, err
	}
	root := b.Bucket(format.BucketIndex)
	if root == nil || root.Bucket([]byte(index)) == nil {
		return indexView{}, fmt.Errorf("collection %s has no bucket for index %q: %w", r.name, index, entry.ErrDamaged)
	}
	return indexView{r: r, name: index, objects: objects, index: root.Bucket([]byte(index)), over: &captured{}}, nil
}

// keys calls fn with each key that has value, in order: from the memtable, and from the file unless the memtable has a
// write for the key.
func (v indexView) keys(value string, fn func(key string) error) error {
	pending := v.over.Filed[value]
	err := v.fileKeys(value, func(key string) error {
		for len(pending) > 0 && pending[0] < key {
			if err := fn(pending[0]); err != nil {
				return err
			}
			pending = pending[1:]
		}
		if v.over.Get(key) != nil {
			return nil
		}
		return fn(key)
	})
	for _, key := range pending {
		if err == nil {
			err = fn(key)
		}
	}
	return err
}

// fileKeys calls fn with each key that has value in the file, in order.
func (v indexView) fileKeys(value string, fn func(key string) error) error {
	if v.sealed {
		return v.sealedKeys(value, fn)
	}
	return v.storedKeys(value, fn)
}

// storedKeys is fileKeys for a value as it is stored: a token if the record is sealed.
func (v indexView) storedKeys(value string, fn func(key string) error) error {
	prefix := format.IndexPrefix(value)
	s := boltfile.ScanAfter(v.index, "")
	k, _ := s.Seek(prefix)
	for k != nil && bytes.HasPrefix(k, prefix) {
		if err := fn(string(k[len(prefix):])); err != nil {
			return err
		}
		k, _ = s.Next()
	}
	if k != nil {
		// k has another value. If that is due to a flipped bit, the entry after k is out of order, and Next
		// sets s.Err: entries must not be missing silently.
		s.Next()
	}
	return s.Err
}

// values calls fn with each value, in no order. In a sealed collection it may call fn more than once for a value.
func (v indexView) values(fn func(value string)) error {
	for value := range v.over.Filed {
		fn(value)
	}
	return v.fileValues(func(value string) error {
		if v.over.Filed[value] != nil {
			return nil
		}
		err := v.keys(value, func(string) error { return errFound })
		if errors.Is(err, errFound) {
			fn(value)
			err = nil
		}
		return err
	})
}

// errFound is returned by a callback to end a search.
var errFound = errors.New("found")

// fileValues calls fn once with each value in the file; in a sealed collection once for each data key. After each value
// it seeks past the other entries of that value.
func (v indexView) fileValues(fn func(value string) error) error {
	s := boltfile.ScanAfter(v.index, "")
	for k, val := s.Next(); k != nil; {
		stored, key, err := format.ParseIndexEntry(k, val)
		if err != nil {
			return fmt.Errorf("index %q in collection %s: %w", v.name, v.r.name, err)
		}
		value := stored
		if v.sealed {
			if value, err = v.plainValue(stored, key); err != nil {
				return err
			}
		}
		if err := fn(value); err != nil {
			return err
		}
		k, val = s.Seek(after(format.IndexPrefix(stored)))
	}
	return s.Err
}

// after returns the first key that follows all keys with the prefix. The
// prefix must not be all 0xff; it is not, since its first byte is a tag.
func after(prefix []byte) []byte {
	p := slices.Clone(prefix)
	for i := len(p) - 1; i >= 0; i-- {
		if p[i]++; p[i] != 0 {
			return p[:i+1]
		}
	}
	return p
}

// objectIn returns the object of key: from the memtable, from memory if that has the same state, or decoded. memory may
// be nil.
func (v indexView) objectIn(memory *resident.Bounded, key string) (runtime.Object, error) {
	if x := v.over.Get(key); x != nil {
		return x.Obj, nil
	}
	data := v.objects.Get([]byte(key))
	if data == nil {
		return nil, fmt.Errorf("index %q in collection %s files %s, which is not there: %w", v.name, v.r.name,
			printable.Key(key), entry.ErrDamaged)
	}
	h, payload, err := format.ParseRecord(v.r.name, key, data)
	if err != nil {
		return nil, err
	}
	if memory != nil {
		if obj := memory.State(key, h.UID, h.RV); obj != nil {
			return obj, nil
		}
	}
	return v.r.decodeRecord(v.objects, key, h, payload)
}
