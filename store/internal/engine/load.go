package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
)

// Load reads every object of the file into the table a, except objects that were written since a was made. It locks
// front while it puts a page into a, because front is also held when the index functions are replaced.
func (r *Reader) Load(ctx context.Context, a *Residents, sets *atomic.Pointer[IndexSet], front sync.Locker) error {
	l := loader{Reader: r, a: a, sets: sets, front: front}
	for after, more := "", true; more; {
		var records []Record
		var err error
		set := sets.Load()
		if records, more, err = r.RawPage(ctx, after); err != nil {
			return err
		}
		if len(records) == 0 {
			return nil
		}
		after = records[len(records)-1].Key
		objs, err := r.DecodeRecords(records)
		if err != nil {
			if records, objs, err = l.decodeUnwritten(records); err != nil {
				return err
			}
		}
		l.put(set, records, objs)
	}
	return nil
}

type loader struct {
	*Reader
	a     *Residents
	sets  *atomic.Pointer[IndexSet]
	front sync.Locker
}

// decodeUnwritten decodes records one by one. It skips an undecodable record whose key was written during the load.
func (l loader) decodeUnwritten(all []Record) (records []Record, objs []runtime.Object, err error) {
	for _, record := range all {
		decoded, err := l.DecodeRecords([]Record{record})
		switch {
		case err == nil:
			records, objs = append(records, record), append(objs, decoded[0])
		case !l.a.Written(record.Key):
			return nil, nil, err
		}
	}
	return records, objs, nil
}

// put puts a page of objects into the table a. set is the IndexSet from before the page was read: the records have the
// terms of the indexes that were ready then. If index functions have been added since, put computes all terms.
func (l loader) put(set *IndexSet, records []Record, objs []runtime.Object) {
	keys, states := make([]string, len(records)), make([]*ResidentObject, len(records))
	for i, record := range records {
		keys[i] = record.Key
		terms := set.TermsOf(record.Terms, record.Key, objs[i])
		states[i] = &ResidentObject{Obj: objs[i], UID: record.UID, RV: record.RV, Terms: terms}
	}
	for !l.putOf(set, keys, states) {
		set = l.sets.Load()
		for i, s := range states {
			s.Terms = set.WorkingTerms(keys[i], s.Obj)
		}
	}
}

// putOf puts objects into the table a. It returns false if their terms, computed with set, are out of date.
func (l loader) putOf(set *IndexSet, keys []string, states []*ResidentObject) bool {
	l.front.Lock()
	defer l.front.Unlock()
	current := l.sets.Load().Generation() == set.Generation()
	if current {
		l.a.PutPage(keys, states)
	}
	return current
}
