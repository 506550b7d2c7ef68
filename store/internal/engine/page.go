package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/query"
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

// Page is a run of objects in key order.
type Page struct {
	Keys []string
	Objs []runtime.Object
	Last string // Last is the last key read, even if its object is not in the page.
	More bool   // More is true if objects may follow.
	Err  error
}

// Iterate calls fn for each object whose key follows after; see store.Interface.
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

// eachScan is the maximum number of payload bytes that one page of Each reads, including objects that are not selected.
// It keeps transactions short: a long transaction keeps replaced pages from being reused.
const eachScan = 32 << 20

// Select returns the objects that q selects, in key order; see store.Interface.
func (r *Reader) Select(ctx context.Context, q query.Query) ([]runtime.Object, error) {
	m := q.Matcher(!r.CustomKeys)
	objs := []runtime.Object{}
	var bad error
	err := r.ViewObjects(ctx, func(objects *bolt.Bucket, over *Captured) error {
		s := newSelecting(r, objects, over, m, q.After)
		for q.Limit <= 0 || len(objs) < q.Limit {
			key, obj, err := s.next()
			switch {
			case errors.Is(err, query.ErrNoField): // Every other object would fail too.
				return err
			case err != nil && bad == nil:
				bad = err
			case err == nil && key == "":
				return s.scan.Err()
			case obj != nil:
				objs = append(objs, obj)
			}
		}
		return nil
	})
	if err == nil {
		err = bad
	}
	return objs, err
}

// Each calls fn for each object that q selects, in key order; see store.Interface.
func (r *Reader) Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error {
	m, n := q.Matcher(!r.CustomKeys), 0
	return IteratePages(ctx, q.After, func(ctx context.Context, after string) Page {
		most := PageObjects
		if q.Limit > 0 {
			most = min(most, q.Limit-n)
		}
		p := r.selectPage(ctx, m, after, most)
		n += len(p.Keys)
		p.More = p.More && (q.Limit <= 0 || n < q.Limit)
		return p
	}, fn)
}

// selectPage reads a page of at most most selected objects after the key after.
func (r *Reader) selectPage(ctx context.Context, m *query.Matcher, after string, most int) (p Page) {
	p.Last = after
	p.Err = r.ViewObjects(ctx, func(objects *bolt.Bucket, over *Captured) error {
		s := newSelecting(r, objects, over, m, after)
		for len(p.Keys) < most && s.decoded < PageBytes && s.scanned < eachScan {
			key, obj, err := s.next()
			if err != nil {
				return err
			}
			if key == "" {
				return s.scan.Err()
			}
			if p.Last = key; obj != nil {
				p.Keys, p.Objs = append(p.Keys, key), append(p.Objs, obj)
			}
		}
		p.More = true
		return nil
	})
	return p
}

type selecting struct {
	r       *Reader
	objects *bolt.Bucket
	m       *query.Matcher
	scan    *MergedScan
	scanned int    // scanned is the number of uncompressed bytes of the payloads read.
	decoded int    // decoded is the number of bytes of the payloads decoded.
	buf     []byte // buf is reused memory for decompressed payloads.
}

func newSelecting(r *Reader, objects *bolt.Bucket, over *Captured, m *query.Matcher, after string) *selecting {
	s := &selecting{r: r, objects: objects, m: m}
	if after >= m.Prefix {
		s.scan = ScanMerged(objects, over, after)
	} else {
		s.scan = scanMergedFrom(objects, over, m.Prefix)
	}
	return s
}

// next reads the next record. obj is nil if the record is not selected. key is "" at the end; then scan.Err returns an
// error if damage has ended the scan.
func (s *selecting) next() (key string, obj runtime.Object, err error) {
	key, data, x, ok := s.scan.Next()
	if !ok || s.m.None {
		return "", nil, nil
	}
	if !strings.HasPrefix(key, s.m.Prefix) {
		// This key ends the range. If it does so only because of a flipped bit, the next key is out of order. The scan has
		// read that key already, and scan.Err returns an error. Objects must not be missing silently.
		return "", nil, nil
	}
	if x != nil {
		obj, err := x.Decoded()
		if err != nil {
			return key, nil, err
		}
		return s.matched(key, obj)
	}
	b, err := s.body(key, data)
	if err != nil {
		return key, nil, err
	}
	s.scanned += b.Size
	match, known := s.m.Payload(s.r.Codec, b.Encoding, b.Payload)
	if known && !match {
		return key, nil, nil
	}
	s.decoded += b.Size
	obj, err = s.r.Coder.Decode(key, b)
	if err != nil || known {
		return key, obj, err
	}
	return s.matched(key, obj)
}

// body returns the decompressed payload of a record. It is valid until the next call.
func (s *selecting) body(key string, data []byte) (crypt.Body, error) {
	h, payload, err := format.ParsePayload(s.r.Name, key, data)
	if err != nil {
		return crypt.Body{}, err
	}
	b, err := s.r.Coder.Open(s.objects, key, h, payload)
	if err != nil || !b.Compressed() {
		return b, err
	}
	b, err = s.r.Coder.Plain(key, b, s.buf)
	if err == nil {
		s.buf = b.Payload
	}
	return b, err
}

func (s *selecting) matched(key string, obj runtime.Object) (string, runtime.Object, error) {
	match, err := s.m.Object(obj)
	if err != nil {
		return key, nil, fmt.Errorf("select from collection %s: %w", s.r.Name, err)
	}
	if !match {
		obj = nil
	}
	return key, obj, nil
}
