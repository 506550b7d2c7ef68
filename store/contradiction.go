package store

import (
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// contradicts reports whether x is an event that cannot follow what p is so far. An object without a UID, which some
// aggregated APIs serve, is taken for the one with the same key.
func (p *pending) contradicts(x *write) bool {
	if x.event == "" {
		return false
	}
	held, uid := p.held()
	if !held {
		return x.event != cache.Added
	}
	return uid != "" && x.uid != "" && uid != x.uid
}

// held reports whether there is an object after the writes so far, and its UID, if that is known.
func (p *pending) held() (held bool, uid string) {
	switch {
	case p.last != nil:
		return !p.last.del, p.last.uid
	case p.obj != nil:
		uid, _ = identityOf(p.obj)
	default:
		uid = p.uid
	}
	return p.found, uid
}

// excuse takes back Contradicts of the changes that show nothing; see there. If that leaves one, the collection is to be
// listed for the batch's reason. Its state is that before the batch: excuse precedes noteBatch and advance.
func (i *Info) excuse(changes []Change, writes []*write, b Batch) {
	due := i.MustRelist
	for n := range changes {
		c := &changes[n]
		c.Contradicts = c.Contradicts && i.Complete && i.MustRelist == "" && !i.mayLack(c.Key) &&
			entry.NewerRV(writes[n].rv, i.ResourceVersion)
		if c.Contradicts {
			due = b.IfContradicted
		}
	}
	i.MustRelist = due
}
