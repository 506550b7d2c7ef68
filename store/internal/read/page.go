package read

import (
	"context"
	"runtime"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/internal/guest"
	"github.com/larder-dev/larder/store/internal/body"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// A page of Iterate has at most iterateObjects objects, and ends with the object that exceeds iterateBytes.
const (
	PageObjects = 500
	PageBytes   = 4 << 20
)

// Record is a record that has been copied out of its transaction and is not decoded, or an object of the memtable.
type Record struct {
	format.Header // without Head; Terms are in plain text, except in a View
	Key           string
	Body          body.Body         // undecoded record; not used if obj is set
	Obj           k8sruntime.Object // object of the memtable; nil for a record of the file
}

// Page is a run of objects in key order.
type Page struct {
	Keys []string
	Objs []k8sruntime.Object
	Last string // last key that was looked at, even if its object is not in the page
	More bool   // whether objects may follow
	Err  error
}

// Iterate calls fn for each object whose key is after the given one; see Interface.
func (r *Reader) Iterate(ctx context.Context, after string, fn func(key string, obj k8sruntime.Object) error) error {
	return IteratePages(ctx, after, r.Page, fn)
}

// IteratePages calls fn for the objects of each page, without a lock or a transaction. It reads a page when fn has
// returned for all objects of the page before.
func IteratePages(
	ctx context.Context, after string, read func(ctx context.Context, after string) Page,
	fn func(key string, obj k8sruntime.Object) error,
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

// Page reads the objects whose keys follow the given one, and decodes them on all cores.
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

// RawPage reads a page of the records whose keys follow the given one. It returns whether records may follow the page.
func (r *Reader) RawPage(ctx context.Context, after string) (records []Record, more bool, err error) {
	err = r.ViewObjects(ctx, func(objects *bolt.Bucket, over *Captured) error {
		size := 0
		s := ScanOver(objects, over, after)
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

// CopyRecord copies what ScanOver returns of a key out of the transaction.
func (r *Reader) CopyRecord(objects *bolt.Bucket, key string, data []byte, x *memtable.Write) (Record, error) {
	if x != nil {
		return Record{Key: key, Header: format.Header{UID: x.UID, RV: x.RV, Terms: x.Terms}, Obj: x.Obj}, nil
	}
	h, payload, err := format.ParseRecord(r.Name, key, data)
	if err != nil {
		return Record{}, err
	}
	if h.SealedBy == 0 {
		payload = slices.Clone(payload)
	}
	b, err := r.Coder.Open(objects, key, h, payload)
	if err == nil && r.Memtable != nil { // a View does not use the terms
		h.Terms, err = r.Coder.Terms(key, h)
	}
	h.Head = nil
	return Record{Key: key, Header: h, Body: b}, err
}

// decodeAlone is the minimum decodeCost that is worth a goroutine: some dozens of small records, or a large one.
const decodeAlone = 256 << 10

// decodeCost estimates the work of decoding a record, in bytes of payload.
func decodeCost(record Record) int {
	if record.Obj != nil {
		return 0
	}
	return 4<<10 + record.Body.Size
}

// shares cuts records into runs of about the same cost, at most one for each goroutine and each worth a goroutine.
func shares(records []Record, goroutines int) (runs [][]Record) {
	left := 0
	for _, record := range records {
		left += decodeCost(record)
	}
	for n := min(goroutines, left/decodeAlone); n > 1; n = min(n-1, left/decodeAlone) {
		end, cost := firstShare(records, left/n)
		if end == len(records) {
			break
		}
		runs, records, left = append(runs, records[:end]), records[end:], left-cost
	}
	return append(runs, records)
}

// firstShare returns how many of the first records cost about as much as share, and their cost. The first record is
// always included, and the last one if at least half of its cost is within share.
func firstShare(records []Record, share int) (end, cost int) {
	for _, record := range records {
		next := decodeCost(record)
		if end > 0 && cost+next/2 > share {
			break
		}
		end, cost = end+1, cost+next
	}
	return end, cost
}

// DecodeRecords decodes the records on all cores, and returns their objects in the same order.
func (r *Reader) DecodeRecords(records []Record) ([]k8sruntime.Object, error) {
	objs := make([]k8sruntime.Object, len(records))
	runs := shares(records, runtime.GOMAXPROCS(0))
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	from := 0
	for i, run := range runs {
		into := objs[from : from+len(run)]
		from += len(run)
		work := func() {
			errs[i] = guest.Try("the codec", func() error { return r.decodeSome(run, into) })
		}
		if i == len(runs)-1 {
			work()
		} else {
			wg.Go(work)
		}
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return objs, nil
}

func (r *Reader) decodeSome(records []Record, objs []k8sruntime.Object) error {
	for i, record := range records {
		if objs[i] = record.Obj; record.Obj != nil {
			continue
		}
		obj, err := r.Coder.Decode(record.Key, record.Body)
		if err != nil {
			return err
		}
		objs[i] = obj
	}
	return nil
}
