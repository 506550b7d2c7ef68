package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/larder-dev/larder/store/internal/memtable"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store/internal/format"
)

// scanned is one object that an index which is not ready would file.
type scanned struct {
	key    string
	obj    runtime.Object // nil if objects are not wanted
	values []string
}

// indexScan looks into an index that is not ready: it asks the index function about every object.
//
// The answer must be of one moment. But the function is the user's and must not be called in a transaction, and to copy
// everything out of one takes as much memory as the collection. So the scan makes several passes. The first reads a
// page at a time, each in a transaction of its own. The next ones pass over what has not been written since the pass
// before began, by the seqs of records, and read the rest. Each pass is shorter than the last, as it has only what was
// written during that; and one whose records are all in one page is one transaction, so with it the whole is of that
// moment.
//
// So a page is held, and what is found: keys and values, or the objects that are asked for. Where writes are so fast
// that after scanPasses there is still more than a page of them, the last pass holds all that was written during the
// one before, so that it ends.
type indexScan struct {
	c    *Collection
	fn   cache.IndexFunc
	want memtable.Lookup
	// found is what the passes so far have come to, in key order, and at what they stand.
	found []scanned
	at    scanMark
}

// scanPasses is how many passes of a scan hold to the bound of a page.
const scanPasses = 5

// scanMark is what a pass has to know of the moment when the one before began.
type scanMark struct {
	// next is above the seqs of all records that were in the file, and none of those that have come since.
	next uint64
	// Nothing can be passed over in another file than the one that was read, or once something pending has been forgotten,
	// so that its record is what it was before.
	file      *bolt.DB
	forgotten uint64
}

// follows reports whether what has been written since before can be told from the rest.
func (m scanMark) follows(before scanMark) bool {
	return m.file == before.file && m.forgotten == before.forgotten && m.next >= before.next
}

// run makes the passes.
func (s *indexScan) run(ctx context.Context) error {
	for n := 1; ; n++ {
		pages, err := s.pass(ctx, n <= scanPasses)
		if pages == 1 || err != nil {
			return err
		}
	}
}

// pass goes through the collection once, and returns how many pages that took.
func (s *indexScan) pass(ctx context.Context, bounded bool) (pages int, err error) {
	before := s.found
	s.found = nil
	var began scanMark
	for after, more := "", true; more; pages++ {
		p, err := s.read(ctx, after, before, bounded)
		if err != nil {
			return 0, err
		}
		if pages == 0 {
			began = p.mark
		}
		if err := s.evaluate(ctx, p); err != nil {
			return 0, err
		}
		after, before, more = p.last, p.before, p.more
	}
	s.at = began
	return pages, nil
}

// scanPage is the part of a pass that one transaction has seen.
type scanPage struct {
	mark    scanMark
	same    []scanned   // that was found before, and is as it was
	records []rawRecord // that are to be looked at
	before  []scanned   // that was found before behind this page
	last    string      // key
	more    bool
}

// keep takes over what was found before for a key that has not been written since.
func (p *scanPage) keep(key string) {
	n, found := slices.BinarySearchFunc(p.before, key, func(m scanned, key string) int { return cmp.Compare(m.key, key) })
	if p.before = p.before[n:]; found {
		p.same, p.before = append(p.same, p.before[0]), p.before[1:]
	}
}

// read reads until there is a page of records that have to be looked at, or the end.
func (s *indexScan) read(ctx context.Context, after string, before []scanned, bounded bool) (p scanPage, err error) {
	err = s.c.viewOver(ctx, nil, func(b *bolt.Bucket, over *captured) error {
		st, err := getState(b, s.c.name)
		if err != nil {
			return err
		}
		objects, err := s.c.objects(b)
		if err != nil {
			return err
		}
		mark := scanMark{next: st.NextSeq, file: b.Tx().DB(), forgotten: over.Forgotten}
		p = scanPage{mark: mark, before: before}
		return s.readObjects(&p, scanOver(objects, over, after), objects, bounded)
	})
	return p, err
}

func (s *indexScan) readObjects(p *scanPage, scan *overScan, objects *bolt.Bucket, bounded bool) error {
	first := uint64(0) // all with lower seqs are as they were
	if p.mark.follows(s.at) {
		first = s.at.next
	}
	copied, size := 0, 0 // what is pending is in memory anyway
	for key, data, x, ok := scan.next(); ok; key, data, x, ok = scan.next() {
		if x == nil && first > 0 {
			h, err := format.ParseHeader(s.c.name, key, data)
			if err != nil {
				return err
			}
			if h.Seq < first {
				p.last = key
				p.keep(key)
				continue
			}
		}
		if bounded && (copied == iterateObjects || size >= iterateBytes) {
			p.more = true
			return nil
		}
		record, err := s.c.copyRecord(objects, key, data, x)
		if err != nil {
			return err
		}
		p.records, p.last = append(p.records, record), key
		if x == nil {
			copied, size = copied+1, size+record.body.size
		}
	}
	return scan.err()
}

// evaluate adds what is found in a page.
func (s *indexScan) evaluate(ctx context.Context, p scanPage) error {
	objs, err := s.c.decodeRecords(p.records)
	if err != nil {
		return err
	}
	begin := len(s.found)
	s.found = append(s.found, p.same...)
	for i, obj := range objs {
		if err := ctx.Err(); err != nil {
			return err
		}
		values, err := indexValues(s.want.Index, s.fn, obj)
		if err == nil && wants(s.want, values) { // on an error the build leaves it out too, and reports it
			s.found = append(s.found, scannedOf(s.want, p.records[i].key, obj, values))
		}
	}
	slices.SortFunc(s.found[begin:], func(a, b scanned) int { return cmp.Compare(a.key, b.key) })
	return nil
}

// wants reports whether an object with these values is looked for.
func wants(l memtable.Lookup, values []string) bool {
	if l.Values == nil {
		return len(values) > 0
	}
	return slices.ContainsFunc(values, func(value string) bool { return slices.Contains(l.Values, value) })
}

// scannedOf is an object that is looked for. The values are copied: the function may use its slice again, and they may
// be parts of the object.
func scannedOf(l memtable.Lookup, key string, obj runtime.Object, values []string) scanned {
	found := scanned{key: key, values: make([]string, len(values))}
	for i, value := range values {
		found.values[i] = strings.Clone(value)
	}
	if l.Objects {
		found.obj = obj
	}
	return found
}
