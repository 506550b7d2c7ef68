package intake

import (
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// contradicts reports whether x is an event that cannot follow the state p; see Change.Contradicts. Objects of one key
// count as the same object if either has no UID: some aggregated APIs serve such objects.
func (p *Pending) contradicts(x *memtable.Write) bool {
	if x.Event == "" {
		return false
	}
	held, uid, _ := p.held()
	if !held {
		return x.Event != cache.Added
	}
	return uid != "" && x.UID != "" && uid != x.UID
}

// held returns whether the key has an object after the writes so far, and that object's UID and resourceVersion.
func (p *Pending) held() (held bool, uid, rv string) {
	if p.last != nil {
		return !p.last.Del, p.last.UID, p.last.RV
	}
	return p.Found, p.UID, p.RV
}

// excuse clears Change.Contradicts where the stored state proves nothing. If it remains set for a change, excuse sets
// MustRelist to the batch's IfContradicted. Info must be as before the batch: call excuse before noteBatch and advance.
func excuse(i *entry.Info, changes []entry.Change, writes []*memtable.Write, b entry.Batch) {
	due := i.MustRelist
	for n := range changes {
		c := &changes[n]
		c.Contradicts = c.Contradicts && i.Complete && i.MustRelist == "" && !mayLack(i, c.Key) &&
			entry.NewerRV(writes[n].RV, i.ResourceVersion)
		if c.Contradicts {
			due = b.IfContradicted
		}
	}
	i.MustRelist = due
}
