package engine

import (
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// contradicts reports whether x is an event that cannot follow the state p; see Change.Contradicts. A missing UID
// equals every UID, since some aggregated APIs serve objects without UIDs.
func (p *Pending) contradicts(x *Write) bool {
	if x.Event == "" {
		return false
	}
	held, uid, _ := p.held()
	if !held {
		return x.Event != cache.Added
	}
	return uid != "" && x.UID != "" && uid != x.UID
}

// held returns whether the key has an object after the writes so far, and the object's UID and resourceVersion.
func (p *Pending) held() (held bool, uid, rv string) {
	if p.last != nil {
		return !p.last.Del, p.last.UID, p.last.RV
	}
	return p.Found, p.UID, p.RV
}

// clearUnproven clears Change.Contradicts where the stored state does not prove a contradiction. For a proven
// contradiction it sets MustRelist to the batch's IfContradicted. Call it before noteBatch and advance, because it
// needs the Info from before the batch.
func clearUnproven(i *entry.Info, changes []entry.Change, writes []*Write, b entry.Batch) {
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
