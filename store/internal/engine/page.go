package engine

import (
	"context"
	"slices"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"

	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
)

// A page of Iterate has at most PageObjects objects, and ends with the object that exceeds PageBytes.
const (
	PageObjects = 500
	PageBytes   = 4 << 20
)

// Record is an undecoded record that has been copied out of its transaction, or an object of the memtable.
type Record struct {
	format.Header // Head is nil. Terms are in plain text, or as stored if the Reader has no Memtable.
	Key           string
	Body          crypt.Body     // Body is the undecoded record; not used if Obj is set.
	Obj           runtime.Object // Obj is the memtable's object, perhaps undecoded; nil for a record of the file.
}

type Page struct {
	Keys []string
	Objs []runtime.Object
	Last string // Last is the last key read, even if its object is not in the page.
	More bool   // More is true if objects may follow.
	Err  error
}

func (r *Reader) Iterate(ctx context.Context, after string, fn func(key string, obj runtime.Object) error) error {
	return IteratePages(ctx, after, r.Page, fn)
}

// IteratePages calls fn for the objects of each page, without a lock or a transaction. It reads the next page after fn
// has returned for all objects of the current page.
func IteratePages(
	ctx context.Context, after string, read func(ctx context.Context, after string) Page,
	fn func(key string, obj runtime.Object) error,
) error {
	for {
		p := read(ctx, after)
		if p.Err != nil {
			return p.Err
		}
		for i, key := range p.Keys {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(key, p.Objs[i]); err != nil {
				return err
			}
		}
		if !p.More {
			return ctx.Err()
		}
		after = p.Last
	}
}

// Page reads a page of the objects whose keys follow after, and decodes them on all cores.
func (r *Reader) Page(ctx context.Context, after string) (p Page) {
	records, more, err := r.RawPage(ctx, after)
	if err != nil {
		return Page{Err: err}
	}
	p.More = more
	p.Objs, p.Err = r.DecodeRecords(records)
	for _, record := range records {
		p.Keys, p.Last = append(p.Keys, record.Key), record.Key
	}
	return p
}

// RawPage reads a page of the records whose keys follow after, and returns whether more records may follow.
func (r *Reader) RawPage(ctx context.Context, after string) (records []Record, more bool, err error) {
	err = r.ViewObjects(ctx, func(objects *bolt.Bucket, over *Captured) error {
		size := 0
		s := ScanMerged(objects, over, after)
		for key, data, x, ok := s.Next(); ok; key, data, x, ok = s.Next() {
			if len(records) == PageObjects || size >= PageBytes {
				more = true
				return nil
			}
			record, err := r.CopyRecord(objects, key, data, x)
			if err != nil {
				return err
			}
			records, size = append(records, record), size+record.Body.Size
		}
		return s.Err()
	})
	return records, more, err
}

// CopyRecord copies a result of a scan out of the transaction: the write x, or the record in data if x is nil.
func (r *Reader) CopyRecord(objects *bolt.Bucket, key string, data []byte, x *Write) (Record, error) {
	if x != nil {
		return Record{Key: key, Header: format.Header{UID: x.UID, RV: x.RV, Terms: x.Terms}, Obj: x.Obj}, nil
	}
	return r.cloneRecord(objects, key, data, slices.Clone)
}

func (r *Reader) cloneRecord(
	objects *bolt.Bucket, key string, data []byte, clone func([]byte) []byte,
) (Record, error) {
	h, payload, err := format.ParseRecord(r.Name, key, data)
	if err != nil {
		return Record{}, err
	}
	if h.SealedBy == 0 {
		payload = clone(payload)
	}
	b, err := r.Coder.Open(objects, key, h, payload)
	if err == nil && r.Memtable != nil { // A View, which has no memtable, does not use the terms.
		h.Terms, err = r.Coder.Terms(key, h)
	}
	h.Head = nil
	return Record{Key: key, Header: h, Body: b}, err
}

// decodeCost estimates the work of decoding records, in bytes of payload.
func decodeCost(records []Record) (cost int) {
	for _, record := range records {
		if u, ok := record.Obj.(*entry.Undecoded); ok {
			cost += 4<<10 + u.Size()
		} else if record.Obj == nil {
			cost += 4<<10 + record.Body.Size
		}
	}
	return cost
}

// DecodeRecords decodes the records on all cores, and returns their objects in the same order.
func (r *Reader) DecodeRecords(records []Record) ([]runtime.Object, error) {
	objs, errs := make([]runtime.Object, len(records)), make([]error, len(records))
	base.Parallel(len(records), decodeCost(records), func(i int) {
		errs[i] = base.Try("the codec", func() (err error) {
			objs[i], err = r.decode(records[i])
			return err
		})
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return objs, nil
}

func (r *Reader) decode(record Record) (runtime.Object, error) {
	if record.Obj != nil {
		return Decoded(record.Key, record.Obj)
	}
	return r.Coder.Decode(record.Key, record.Body)
}
