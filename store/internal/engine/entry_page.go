package engine

import (
	"context"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

// CountKeys returns the number of the collection's keys that begin with prefix, in one snapshot.
func (r *Reader) CountKeys(ctx context.Context, prefix string) (n int, err error) {
	err = r.ViewObjects(ctx, func(objects *bolt.Bucket, over *Captured) error {
		n = 0
		s := scanMergedFrom(objects, over, prefix)
		for key, _, _, ok := s.Next(); ok && strings.HasPrefix(key, prefix); key, _, _, ok = s.Next() {
			n++
		}
		return s.Err()
	})
	return n, err
}

// EntryPage is a run of entries in key order, with the Info of the same snapshot.
type EntryPage struct {
	Entries []entry.Entry
	More    bool   // More is true if entries may follow the page.
	Last    string // Last is the last key read.
	Info    entry.Info
}

// arena is reused memory for the payloads of consecutive pages.
type arena struct {
	memory *[]byte // memory is the reused memory, which the caller owns.
	used   []byte  // used is the part of memory that the current page uses.
	lacks  int     // lacks is the number of bytes of the page that did not fit into memory.
}

func (a *arena) clone(data []byte) []byte {
	from := len(a.used)
	if from+len(data) > cap(a.used) {
		a.lacks += len(data)
		return slices.Clone(data)
	}
	a.used = append(a.used, data...)
	return a.used[from:len(a.used):len(a.used)]
}

func (a *arena) grow() {
	if a.lacks > 0 {
		*a.memory = make([]byte, 0, (len(a.used)+a.lacks)*5/4)
	}
}

// PageQuery selects the entries of a page by prefix, position and limits; see store.PageOptions.
type PageQuery struct {
	After, Prefix string
	Limit, Bytes  int
	Memory        *[]byte
}

// PageOfEntries reads a page of entries from one snapshot: keys after q.After that begin with q.Prefix, at most q.Limit
// and PageObjects of them. It calls the function also at the moment of the snapshot, while writes are blocked. If
// q.Memory is not nil, it holds the payloads, and grows as needed. At an unreadable entry, PageOfEntries returns the
// entries before it and an entry.RecordError.
func (r *Reader) PageOfEntries(ctx context.Context, q PageQuery, also func()) (p EntryPage, err error) {
	after, prefix, limit, most, memory := q.After, q.Prefix, q.Limit, q.Bytes, q.Memory
	clone := slices.Clone[[]byte]
	var payloads arena
	if memory != nil {
		payloads.memory, clone = memory, payloads.clone
		defer payloads.grow()
	}
	if limit <= 0 || limit > PageObjects {
		limit = PageObjects
	}
	if most <= 0 || most > PageBytes {
		most = PageBytes
	}
	var all []rawStored
	capture := func() *Captured { return r.Memtable.Capture(nil, also) }
	err = r.viewCaptured(ctx, capture, func(b *bolt.Bucket, over *Captured) error {
		all, p = nil, EntryPage{Last: after}
		if memory != nil {
			payloads.used, payloads.lacks = (*memory)[:0], 0
		}
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		st, err := GetState(b, r.Name)
		if err != nil {
			return err
		}
		if p.Info = st.Info; over.Dirty {
			st.Follow(over.Info.Clone())
			p.Info, p.Info.Objects = st.Info, over.Info.Objects
		}
		size := 0
		var s *MergedScan
		if after < prefix {
			s = scanMergedFrom(objects, over, prefix)
		} else {
			s = ScanMerged(objects, over, after)
		}
		for key, data, x, ok := s.Next(); ok && strings.HasPrefix(key, prefix); key, data, x, ok = s.Next() {
			if len(all) == limit || size >= most {
				p.More = true
				return nil
			}
			one := rawStored{}
			if x != nil {
				one.written = x.Entry(r.Codec.Name())
			} else {
				one = r.copyStored(objects, []byte(key), data, clone)
			}
			one.Key = key
			all, p.Last = append(all, one), key
			size += one.size()
		}
		return s.Err()
	})
	return p, r.openPage(&p, all, err)
}

// openPage decompresses the copied records, up to the first unreadable one, and sets them as the entries of the page.
func (r *Reader) openPage(p *EntryPage, all []rawStored, err error) error {
	entries, errs, cost := make([]entry.Entry, len(all)), make([]error, len(all)), 0
	for _, one := range all {
		cost += one.size() / 4
	}
	base.Parallel(len(all), cost, func(i int) { entries[i], errs[i] = r.entryOf(all[i]) })
	for i := range errs {
		if errs[i] != nil {
			p.Entries, p.Last = entries[:i], all[i].Key
			return errs[i]
		}
	}
	p.Entries = entries
	return err
}
