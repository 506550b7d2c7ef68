package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

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

// View calls fn with the collection's bucket in a read transaction.
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

// Objects returns the objects bucket in the collection's bucket.
func (r *Reader) Objects(b *bolt.Bucket) (*bolt.Bucket, error) {
	objects := b.Bucket(format.BucketObjects)
	if objects == nil {
		return nil, fmt.Errorf("collection %s has no objects bucket: %w", r.Name, entry.ErrDamaged)
	}
	return objects, nil
}

// Info returns the collection's Info.
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
	if s.MustRelist == "" && r.hasDamaged() {
		s.MustRelist = format.MustRelistDamaged
	}
	return s.Info, err
}

// hasDamaged reports whether a damaged record was found that no write replaces.
func (r *Reader) hasDamaged() bool {
	return slices.ContainsFunc(r.File.Damaged(r.Name), func(key string) bool {
		return r.Memtable == nil || r.Memtable.Get(key) == nil
	})
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

// List returns every object, in key order.
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

// Keys returns every key, sorted.
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

// Captured is a snapshot of a collection's memtable.
type Captured = MemtableView[Covers]

// ViewMerged calls fn with the collection's bucket and a View of the memtable. Together they are the state after some
// batch. want is an index look-up for which the View is captured, or nil.
func (r *Reader) ViewMerged(
	ctx context.Context, want *Lookup, fn func(b *bolt.Bucket, over *Captured) error,
) error {
	return r.viewCaptured(ctx, func() *Captured { return r.Memtable.Capture(want, func() {}) }, fn)
}

// viewCaptured captures the memtable before the transaction begins, so that writes that are committed in between are in
// the file. If a commit has begun or ended in between, it retries, since the file might have later writes than the
// View.
func (r *Reader) viewCaptured(
	ctx context.Context, capture func() *Captured, fn func(b *bolt.Bucket, over *Captured) error,
) error {
	for {
		over, again := &Captured{}, false
		if r.Memtable != nil {
			over = capture()
		}
		err := r.View(ctx, func(b *bolt.Bucket) error {
			if r.Memtable != nil && !r.Memtable.IsAt(over.Epoch) {
				again = true
				return nil
			}
			return fn(b, over)
		})
		if !again {
			return err
		}
	}
}

// MergedScan reads the objects of a collection in key order. A write in the memtable replaces the record in the file.
type MergedScan struct {
	file    *boltfile.Scan
	records int    // records is the number of records read from the file, including replaced ones.
	k, v    []byte // k and v are the next key and record of the file; nil at its end.
	over    *Captured
	pending []*Write // pending are the next writes of the memtable, at most aheadWrites.
	all     bool     // all is true if pending has all remaining writes of the memtable.
}

const aheadWrites = 256

// ScanMerged returns a scan of the objects in the file and the memtable that starts after the given key.
func ScanMerged(objects *bolt.Bucket, over *Captured, after string) *MergedScan {
	s := &MergedScan{file: boltfile.ScanAfter(objects, after), over: over}
	s.k, s.v = s.file.Next()
	s.ahead(after)
	return s
}

// scanMergedFrom returns a scan of the objects in the file and the memtable that starts at the given key.
func scanMergedFrom(objects *bolt.Bucket, over *Captured, from string) *MergedScan {
	s := &MergedScan{file: boltfile.ScanAfter(objects, ""), over: over}
	s.k, s.v = s.file.Seek([]byte(from))
	s.pending = over.From(from, aheadWrites, func(*Write) bool { return true })
	s.all = len(s.pending) < aheadWrites
	return s
}

func (s *MergedScan) ahead(after string) {
	s.pending = s.over.After(after, aheadWrites)
	s.all = len(s.pending) < aheadWrites
}

// Next returns the next key with its record, or with its write in the memtable. ok is false at the end; then Err
// returns an error if damage has ended the scan.
func (s *MergedScan) Next() (key string, data []byte, x *Write, ok bool) {
	for {
		switch {
		case len(s.pending) == 0 && s.k == nil:
			return "", nil, nil, false
		case len(s.pending) == 0 || s.k != nil && string(s.k) < s.pending[0].Key:
			key, data = string(s.k), s.v
			s.advance()
			return key, data, nil, true
		}
		x = s.pending[0]
		if s.pending = s.pending[1:]; len(s.pending) == 0 && !s.all {
			s.ahead(x.Key)
		}
		if s.k != nil && string(s.k) == x.Key {
			s.advance()
		}
		if !x.Del {
			return x.Key, nil, x, true
		}
	}
}

func (s *MergedScan) advance() {
	s.records++
	s.k, s.v = s.file.Next()
}

// Err returns the error of damage that has ended the scan, or nil.
func (s *MergedScan) Err() error { return s.file.Err }

// StoredRecord is the file's record under a key. It is valid until the transaction ends.
type StoredRecord struct {
	format.Header
	Found   bool   // Found is false without a record; the other fields are zero then.
	Payload []byte // Payload is memory of the transaction.
	Objects *bolt.Bucket
}

// Stored returns the record under key. Found is false if there is none. The error of a record whose checksum is wrong
// is a format.DamagedRecord.
func (r *Reader) Stored(objects *bolt.Bucket, key string) (StoredRecord, error) {
	data := objects.Get([]byte(key))
	if data == nil {
		return StoredRecord{}, nil
	}
	h, payload, err := format.ParseRecord(r.Name, key, data)
	return StoredRecord{Header: h, Found: true, Payload: payload, Objects: objects}, err
}

// Object decodes a stored record. It returns nil for a damaged record, and for a record that this program cannot
// decode: no reader has seen its object. An error wraps entry.ErrDamaged.
func (r *Reader) Object(key string, s StoredRecord) (runtime.Object, error) {
	if !s.Found || s.Objects == nil {
		return nil, nil
	}
	obj, err := r.Coder.ObjectOf(s.Objects, key, s.Header, s.Payload)
	if err != nil && (!errors.Is(err, entry.ErrDamaged) || format.IsDamagedRecord(err)) {
		return nil, nil
	}
	return obj, err
}

// RefOf returns the identity in the write x, or in the record if x is nil. It verifies the record's checksum.
func (r *Reader) RefOf(key string, data []byte, x *Write) (entry.ObjectRef, error) {
	if x != nil {
		return entry.ObjectRef{Key: key, UID: x.UID, ResourceVersion: x.RV}, nil
	}
	h, err := format.ParseHeader(r.Name, key, data)
	return entry.ObjectRef{Key: key, UID: h.UID, ResourceVersion: h.RV}, err
}

// CustomKeys reports whether fn may return keys of another form than client-go's namespace/name.
func CustomKeys(fn cache.KeyFunc) bool {
	if fn == nil {
		return false
	}
	at := reflect.ValueOf(fn).Pointer()
	return at != reflect.ValueOf(cache.MetaNamespaceKeyFunc).Pointer() &&
		at != reflect.ValueOf(cache.DeletionHandlingMetaNamespaceKeyFunc).Pointer()
}
