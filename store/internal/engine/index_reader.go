package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
)

// IndexReader answers look-ups in the indexes of a file. An IndexReader is a function that calls fn with the index
// want.Index, in a read transaction, and returns the error of fn. Each method looks up once.
type IndexReader func(ctx context.Context, want Lookup, fn func(IndexView) error) error

// IndexKeys returns the keys that have value in the index, sorted.
func (r IndexReader) IndexKeys(ctx context.Context, index, value string) ([]string, error) {
	keys := []string{}
	err := r(ctx, Lookup{Index: index, Values: []string{value}}, func(v IndexView) error {
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

// IndexValues returns every value in the index, sorted.
func (r IndexReader) IndexValues(ctx context.Context, index string) ([]string, error) {
	values := map[string]bool{}
	err := r(ctx, Lookup{Index: index}, func(v IndexView) error {
		return v.values(func(value string) { values[value] = true })
	})
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(values)), nil
}

// ByIndex returns the objects that have one of the values in the index, each object once.
func (r IndexReader) ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error) {
	objs, seen := []runtime.Object{}, map[string]bool{}
	if values == nil {
		values = []string{} // No values: nil in a Lookup would mean every value.
	}
	err := r(ctx, Lookup{Index: index, Values: values}, func(v IndexView) error {
		for _, value := range values {
			err := v.keys(value, func(key string) error {
				if seen[key] {
					return nil
				}
				seen[key] = true
				obj, err := v.src.Object(key)
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

// IndexView returns a view of the named index of the collection with bucket b, combined with the uncommitted writes in
// over. sealed is true if the collection has sealed records; older records may be unsealed.
func (r *Reader) IndexView(
	b *bolt.Bucket, name string, sealed bool, over *Captured,
) (IndexView, error) {
	objects, err := r.Objects(b)
	if err != nil {
		return IndexView{}, err
	}
	src := IndexSource{
		Object: func(key string) (runtime.Object, error) { return r.filed(objects, name, key, over) },
		Dirty:  func(key string) bool { return over.Get(key) != nil },
		Filed:  over.Filed,
	}
	if sealed {
		src.Sealing = crypt.FiledTerms{Sealer: r.Coder.Sealer, Objects: objects}
	}
	return NewIndexView(r.Name, b, name, src)
}

// filed returns the object of a key in the named index, from the memtable or decoded from its record.
func (r *Reader) filed(objects *bolt.Bucket, name, key string, over *Captured) (runtime.Object, error) {
	if x := over.Get(key); x != nil {
		return x.Decoded()
	}
	s, err := r.Stored(objects, key)
	switch {
	case err != nil:
		return nil, err
	case !s.Found:
		return nil, fmt.Errorf("index %q in collection %s files %s, which is not there: %w", name, r.Name,
			base.PrintableKey(key), entry.ErrDamaged)
	}
	return r.Coder.ObjectOf(objects, key, s.Header, s.Payload)
}

// buildRecords is the maximum number of records in an IndexPage, since one transaction writes them.
const buildRecords = 1000

// IndexPage reads the records after the key after in one transaction, up to buildRecords or PageBytes, and then decodes
// them. An index build computes their terms.
func (r *Reader) IndexPage(ctx context.Context, after string) (page []IndexedRecord, more bool, err error) {
	var raw []Record
	err = r.View(ctx, func(b *bolt.Bucket) error {
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		size := 0
		s := boltfile.ScanAfter(objects, after)
		for k, data := s.Next(); k != nil && !more; k, data = s.Next() {
			record, err := r.CopyRecord(objects, string(k), data, nil)
			if err != nil {
				return err
			}
			stored, err := r.Stored(objects, record.Key)
			if err != nil {
				return err
			}
			raw = append(raw, record)
			page = append(page, IndexedRecord{Key: record.Key, Seq: record.Seq, Terms: record.Terms,
				Lacks: LacksTerms(b, record.Key, stored.Terms)})
			size += record.Body.Size
			more = len(raw) == buildRecords || size >= PageBytes
		}
		return s.Err
	})
	if err != nil {
		return nil, false, err
	}
	objs, err := r.DecodeRecords(raw)
	for i, obj := range objs {
		page[i].Object = obj
	}
	return page, more, err
}

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

// Sealing describes how a sealed collection stores terms. Records from before the sealing have unsealed terms.
type Sealing interface {
	// Tokens returns the stored forms of the value in the index: a token for each data key.
	Tokens(index, value string) []string
	// Sealed reports whether the record with this key is sealed, so that its terms are tokens.
	Sealed(key string) bool
	Value(index, token string) (string, error)
}

// sealedKeys calls fn with each key that has value in the file's index of a sealed collection. It looks up the token of
// value under each data key, and also value itself, for records from before the sealing.
func (v IndexView) sealedKeys(value string, fn func(key string) error) error {
	var keys []string
	for _, token := range v.src.Sealing.Tokens(v.name, value) {
		err := v.storedKeys(token, func(key string) error {
			keys = append(keys, key)
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := v.storedKeys(value, func(key string) error {
		if !v.src.Sealing.Sealed(key) { // A sealed record has tokens, and value merely equals a token.
			keys = append(keys, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := fn(key); err != nil {
			return err
		}
	}
	return nil
}

// plain returns the value of an entry for key. stored is the stored form of the value.
func (v IndexView) plain(stored, key string) (string, error) {
	if v.src.Sealing == nil || !v.src.Sealing.Sealed(key) {
		return stored, nil
	}
	value, err := v.src.Sealing.Value(v.name, stored)
	if err != nil {
		return "", fmt.Errorf("collection %s: %w", v.collection, err)
	}
	return value, nil
}
