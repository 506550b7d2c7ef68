package store

import (
	"context"
	"runtime"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
)

// A page of Iterate ends at either bound.
const (
	iterateObjects = 500
	iterateBytes   = 4 << 20
)

// rawRecord is a record that has been copied out of its transaction and not been decoded, or an object that is pending.
type rawRecord struct {
	header
	key  string
	body body
	obj  k8sruntime.Object
}

// page is some objects in key order.
type page struct {
	keys []string
	objs []k8sruntime.Object
	more bool // there may be others
	err  error
}

// Iterate calls fn for each object whose key is after the given one; see Interface.
func (r *reader) Iterate(ctx context.Context, after string, fn func(key string, obj k8sruntime.Object) error) error {
	return iteratePages(ctx, after, r.page, fn)
}

// iteratePages calls fn for the objects of each page, under no lock and in no transaction. A page is read when fn has had those before it.
func iteratePages(ctx context.Context, after string, read func(ctx context.Context, after string) page, fn func(key string, obj k8sruntime.Object) error) error {
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
		after = p.keys[len(p.keys)-1]
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
		p.keys = append(p.keys, record.key)
	}
	return p
}

// rawPage reads the records whose keys follow the given one. more is set if there may be others.
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
			records, size = append(records, record), size+record.body.size
		}
		return s.err()
	})
	return records, more, err
}

func (r *reader) copyRecord(objects *bolt.Bucket, key string, data []byte, x *write) (rawRecord, error) {
	if x != nil {
		return rawRecord{key: key, header: header{UID: x.uid, RV: x.rv, Terms: x.terms}, obj: x.obj}, nil
	}
	h, payload, err := parseRecord(r.name, key, data)
	if err != nil {
		return rawRecord{}, err
	}
	b, err := r.body(objects, key, h, slices.Clone(payload))
	return rawRecord{key: key, header: h, body: b}, err
}

// decodeAlone is how many records one goroutine decodes at least.
const decodeAlone = 64

// decodeRecords decodes on all cores.
func (r *reader) decodeRecords(records []rawRecord) ([]k8sruntime.Object, error) {
	objs := make([]k8sruntime.Object, len(records))
	workers := max(1, min(runtime.GOMAXPROCS(0), len(records)/decodeAlone))
	share := (len(records) + workers - 1) / workers
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		from, to := w*share, min((w+1)*share, len(records))
		work := func() {
			errs[w] = guard("the codec", func() error { return r.decodeSome(records[from:to], objs[from:to]) })
		}
		if w == workers-1 {
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
		obj, err := r.decodeBody(record.key, record.body)
		if err != nil {
			return err
		}
		objs[i] = obj
	}
	return nil
}
