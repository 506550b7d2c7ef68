package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// IndexView is one index in a read transaction, combined with the uncommitted writes.
type IndexView struct {
	collection, name string
	entries          *bolt.Bucket
	src              IndexSource
}

// IndexSource gives an IndexView access to the objects and the memtable of the collection.
type IndexSource struct {
	// Object returns the object with a key of the index, from the memtable or from its record.
	Object func(key string) (runtime.Object, error)
	// Sealing is nil if no record of the collection is sealed.
	Sealing Sealing
	// Dirty reports whether the memtable has a write of the key. It is nil without a memtable.
	Dirty func(key string) bool
	// Filed holds, for each value of a look-up, the sorted keys of the memtable's writes that have the value.
	Filed map[string][]string
}

// NewIndexView returns a view of the named index. It fails with entry.ErrDamaged if the index has no bucket in b.
func NewIndexView(collection string, b *bolt.Bucket, name string, src IndexSource) (IndexView, error) {
	entries, err := bucketOf(collection, b.Bucket(format.BucketIndex), name)
	return IndexView{collection: collection, name: name, entries: entries, src: src}, err
}

// keys calls fn with each key that has value, in key order. For keys with a write in the memtable, it ignores the file.
func (v IndexView) keys(value string, fn func(key string) error) error {
	dirty := v.src.Filed[value]
	err := v.fileKeys(value, func(key string) error {
		for len(dirty) > 0 && dirty[0] < key {
			if err := fn(dirty[0]); err != nil {
				return err
			}
			dirty = dirty[1:]
		}
		if v.src.Dirty != nil && v.src.Dirty(key) {
			return nil
		}
		return fn(key)
	})
	for _, key := range dirty {
		if err == nil {
			err = fn(key)
		}
	}
	return err
}

// fileKeys calls fn with each key that has the value in the file's index, in key order. It ignores the memtable.
func (v IndexView) fileKeys(value string, fn func(key string) error) error {
	if v.src.Sealing != nil {
		return v.sealedKeys(value, fn)
	}
	return v.storedKeys(value, fn)
}

// storedKeys calls fn with each key that has an entry for a stored value in the file, in key order. In a sealed
// collection the stored value of a sealed record is a token.
func (v IndexView) storedKeys(value string, fn func(key string) error) error {
	prefix := format.IndexPrefix(value)
	s := boltfile.ScanAfter(v.entries, "")
	k, _ := s.Seek(prefix)
	for k != nil && bytes.HasPrefix(k, prefix) {
		if err := fn(string(k[len(prefix):])); err != nil {
			return err
		}
		k, _ = s.Next()
	}
	if k != nil {
		// The key k has another value, so the loop has ended. If k differs only because of a flipped bit, the entry after k
		// is out of order, and Next sets s.Err: entries must not be missing silently.
		s.Next()
	}
	return s.Err
}

// values calls fn with each value in no particular order, in a sealed collection perhaps more than once.
func (v IndexView) values(fn func(value string)) error {
	for value := range v.src.Filed {
		fn(value)
	}
	return v.fileValues(func(value string) error {
		if v.src.Filed[value] != nil {
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

var errFound = errors.New("found")

// fileValues calls fn with each value in the file's index: once, or in a sealed collection once for each data key. It
// seeks past the other entries of a value.
func (v IndexView) fileValues(fn func(value string) error) error {
	s := boltfile.ScanAfter(v.entries, "")
	for k, val := s.Next(); k != nil; {
		stored, key, err := format.ParseIndexEntry(k, val)
		if err != nil {
			return fmt.Errorf("index %q in collection %s: %w", v.name, v.collection, err)
		}
		value, err := v.plain(stored, key)
		if err != nil {
			return err
		}
		if err := fn(value); err != nil {
			return err
		}
		k, val = s.Seek(after(format.IndexPrefix(stored)))
	}
	return s.Err
}

// after returns the first key after all keys with the prefix, which has another byte than 0xff: the first one is a tag.
func after(prefix []byte) []byte {
	p := slices.Clone(prefix)
	for i := len(p) - 1; i >= 0; i-- {
		if p[i]++; p[i] != 0 {
			return p[:i+1]
		}
	}
	return p
}
