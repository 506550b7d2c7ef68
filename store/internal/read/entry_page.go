package read

import (
	"context"
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

// PageOfEntries reads the entries of one moment whose keys follow after and begin with prefix: at most limit, and
// PageObjects, of them. also is called at that moment, while nothing is put. At an entry that cannot be read it returns
// those before it and an entry.RecordError.
func (r *Reader) PageOfEntries(
	ctx context.Context, after, prefix string, limit int, also func(),
) (p EntryPage, err error) {
	if limit <= 0 || limit > PageObjects {
		limit = PageObjects
	}
	var all []rawStored
	capture := func() *Captured { return r.Memtable.Capture(nil, also) }
	err = r.viewCaptured(ctx, capture, func(b *bolt.Bucket, over *Captured) error {
		all, p = nil, EntryPage{Last: after}
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
			if len(all) == limit || size >= PageBytes {
				p.More = true
				return nil
			}
			one := rawStored{}
			if x != nil {
				one.written = x.Entry(r.Codec.Name())
			} else {
				one = r.copyStored(objects, []byte(key), data)
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
