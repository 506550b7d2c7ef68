package read

import (
	"context"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/parallel"
	"github.com/larder-dev/larder/store/internal/state"
)

// CountKeys returns how many keys of one moment begin with prefix.
func (r *Reader) CountKeys(ctx context.Context, prefix string) (n int, err error) {
	err = r.ViewObjects(ctx, func(objects *bolt.Bucket, over *Captured) error {
		n = 0
		s := scanOverFrom(objects, over, prefix)
		for key, _, _, ok := s.Next(); ok && strings.HasPrefix(key, prefix); key, _, _, ok = s.Next() {
			n++
		}
		return s.Err()
	})
	return n, err
}

// EntryPage is a run of entries in key order, with the Info of the same moment.
type EntryPage struct {
	Entries []entry.Entry
	More    bool   // entries may follow
	Last    string // the last key that was looked at
	Info    entry.Info
}

// arena is memory for the payloads of one page after the other.
type arena struct {
	memory *[]byte // of the caller
	used   []byte  // of this page
	lacks  int     // what did not fit
}

// clone copies data, into the arena if it fits.
func (a *arena) clone(data []byte) []byte {
	from := len(a.used)
	if from+len(data) > cap(a.used) {
		a.lacks += len(data)
		return slices.Clone(data)
	}
	a.used = append(a.used, data...)
	return a.used[from:len(a.used):len(a.used)]
}

// grow makes room for a page as this one.
func (a *arena) grow() {
	if a.lacks > 0 {
		*a.memory = make([]byte, 0, (len(a.used)+a.lacks)*5/4)
	}
}

// PageQuery says which entries a page has; see store.PageOptions.
type PageQuery struct {
	After, Prefix string
	Limit, Bytes  int
	Memory        *[]byte
}

// PageOfEntries reads the entries of one moment whose keys follow q.After and begin with q.Prefix: at most q.Limit, and
// PageObjects, of them. also is called at that moment, while nothing is put. Payloads are put into q.Memory, if it is
// not nil, which grows as it is used. At an entry that cannot be read it returns those before it and an
// entry.RecordError.
func (r *Reader) PageOfEntries(ctx context.Context, q PageQuery, also func()) (p EntryPage, err error) {
	after, prefix, limit, most, memory := q.After, q.Prefix, q.Limit, q.Bytes, q.Memory
	clone := slices.Clone[[]byte]
	var room arena
	if memory != nil {
		room.memory, clone = memory, room.clone
		defer room.grow()
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
			room.used, room.lacks = (*memory)[:0], 0
		}
		objects, err := r.Objects(b)
		if err != nil {
			return err
		}
		st, err := state.Get(b, r.Name)
		if err != nil {
			return err
		}
		if p.Info = st.Info; over.Dirty {
			st.Follow(over.Info.Clone())
			p.Info, p.Info.Objects = st.Info, over.Info.Objects
		}
		size := 0
		var s *OverScan
		if after < prefix {
			s = scanOverFrom(objects, over, prefix)
		} else {
			s = ScanOver(objects, over, after)
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

// openPage sets the entries of a page, up to the first one that cannot be read.
func (r *Reader) openPage(p *EntryPage, all []rawStored, err error) error {
	entries, errs, cost := make([]entry.Entry, len(all)), make([]error, len(all)), 0
	for _, one := range all {
		cost += one.size() / 4
	}
	parallel.Each(len(all), cost, func(i int) { entries[i], errs[i] = r.entryOf(all[i]) })
	for i := range errs {
		if errs[i] != nil {
			p.Entries, p.Last = entries[:i], all[i].Key
			return errs[i]
		}
	}
	p.Entries = entries
	return err
}
