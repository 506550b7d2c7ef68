package store

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
	iterateObjects = 500
	iterateBytes   = 4 << 20
)

// rawRecord is a record that has been copied out of its transaction and is not decoded, or an object of the memtable.
type rawRecord struct {
	format.Header // without Head; Terms are in plain text, except in a View
	key           string
	body          body.Body         // undecoded record; not used if obj is set
	obj           k8sruntime.Object // object of the memtable; nil for a record of the file
}

// page is a run of objects in key order.
type page struct {
	keys []string
	objs []k8sruntime.Object
	last string // last key that was looked at, even if its object is not in the page
	more bool   // whether objects may follow
	err  error
}

// Iterate calls fn for each object whose key is after the given one; see Interface.
func (r *reader) Iterate(ctx context.Context, after string, fn func(key string, obj k8sruntime.Object) error) error {
	return iteratePages(ctx, after, r.page, fn)
}

// iteratePages calls fn for the objects of each page, without a lock or a transaction. It reads a page when fn has
// returned for all objects of the page before.
func iteratePages(
	ctx context.Context, after string, read func(ctx context.Context, after string) page,
	fn func(key string, obj k8sruntime.Object) error,
) error {
	for {
		p := read(ctx, after)
		if p.err != nil {
			return p.err
		}
		for i, key := range p.keys {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(key, p.objs[i]); err != nil {
				return err
			}
		}
		if !p.more {
			return ctx.Err()
		}
		after = p.last
	}
}

// page reads the objects whose keys follow the given one, and decodes them on all cores.
func (r *reader) page(ctx context.Context, after string) (p page) {
	records, more, err := r.rawPage(ctx, after)
	if err != nil {
		return page{err: err}
	}
	p.more = more
	p.objs, p.err = r.decodeRecords(records)
	for _, record := range records {
		p.keys, p.last = append(p.keys, record.key), record.key
	}
	return p
}

// rawPage reads a page of the records whose keys follow the given one. It returns whether records may follow the page.
func (r *reader) rawPage(ctx context.Context, after string) (records []rawRecord, more bool, err error) {
	err = r.viewObjects(ctx, func(objects *bolt.Bucket, over *captured) error {
		size := 0
		s := scanOver(objects, over, after)
		for key, data, x, ok := s.next(); ok; key, data, x, ok = s.next() {
			if len(records) == iterateObjects || size >= iterateBytes {
				more = true
				return nil
			}
			record, err := r.copyRecord(objects, key, data, x)
			if err != nil {
				return err
			}
			records, size = append(records, record), size+record.body.Size
		}
		return s.err()
	})
	return records, more, err
}

func (r *reader) copyRecord(objects *bolt.Bucket, key string, data []byte, x *memtable.Write) (rawRecord, error) {
	if x != nil {
		return rawRecord{key: key, Header: format.Header{UID: x.UID, RV: x.RV, Terms: x.Terms}, obj: x.Obj}, nil
	}
	h, payload, err := format.ParseRecord(r.name, key, data)
	if err != nil {
		return rawRecord{}, err
	}
	if h.SealedBy == 0 {
		payload = slices.Clone(payload)
	}
	b, err := r.coder.Open(objects, key, h, payload)
	if err == nil && r.memtable != nil { // a View does not use the terms
		h.Terms, err = r.coder.Terms(key, h)
	}
	h.Head = nil
	return rawRecord{key: key, Header: h, body: b}, err
}

// decodeAlone is the minimum decodeCost that is worth a goroutine: some dozens of small records, or a large one.
const decodeAlone = 256 << 10

// decodeCost estimates the work of decoding a record, in bytes of payload.
func decodeCost(record rawRecord) int {
	if record.obj != nil {
		return 0
	}
	return 4<<10 + record.body.Size
}

// shares cuts records into runs of about the same cost, at most one for each goroutine and each worth a goroutine.
func shares(records []rawRecord, goroutines int) (runs [][]rawRecord) {
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
func firstShare(records []rawRecord, share int) (end, cost int) {
	for _, record := range records {
		next := decodeCost(record)
		if end > 0 && cost+next/2 > share {
			break
		}
		end, cost = end+1, cost+next
	}
	return end, cost
}

// decodeRecords decodes the records on all cores, and returns their objects in the same order.
func (r *reader) decodeRecords(records []rawRecord) ([]k8sruntime.Object, error) {
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

func (r *reader) decodeSome(records []rawRecord, objs []k8sruntime.Object) error {
	for i, record := range records {
		if objs[i] = record.obj; record.obj != nil {
			continue
		}
		obj, err := r.coder.Decode(record.key, record.body)
		if err != nil {
			return err
		}
		objs[i] = obj
	}
	return nil
}
