package engine

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/boltfile"

	"github.com/larder-dev/larder/store/internal/crypt"
)

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
