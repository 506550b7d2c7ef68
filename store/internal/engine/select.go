package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/query"
)

// eachScan is the maximum number of payload bytes that one page of Each reads, including objects that are not selected.
// It keeps transactions short: a long transaction keeps replaced pages from being reused.
const eachScan = 32 << 20

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
