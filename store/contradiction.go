package store

import (
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// contradicts reports whether x is an event that cannot follow what p is so far. An object without a UID, which some
// aggregated APIs serve, is taken for the one with the same key.
func (p *pending) contradicts(x *memtable.Write) bool {
	if x.Event == "" {
		return false
	}
	held, uid := p.held()
	if !held {
		return x.Event != cache.Added
	}
	return uid != "" && x.UID != "" && uid != x.UID
}

// held reports whether there is an object after the writes so far, and its UID, if that is known.
func (p *pending) held() (held bool, uid string) {
	switch {
	case p.last != nil:
		return !p.last.Del, p.last.UID
	case p.obj != nil:
		uid, _ = identityOf(p.obj)
	default:
		uid = p.uid
	}
	return p.found, uid
}

// excuse takes back Contradicts of the changes that show nothing; see there. If that leaves one, the collection is to
// be listed for the batch's reason. Its state is that before the batch: excuse precedes noteBatch and advance.
func (i *Info) excuse(changes []Change, writes []*memtable.Write, b Batch) {
	due := i.MustRelist
	for n := range changes {
		c := &changes[n]
		c.Contradicts = c.Contradicts && i.Complete && i.MustRelist == "" && !i.mayLack(c.Key) &&
			entry.NewerRV(writes[n].RV, i.ResourceVersion)
		if c.Contradicts {
			due = b.IfContradicted
		}
	}
	i.MustRelist = due
}
