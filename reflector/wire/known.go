package wire

import (
	"sync"

	"github.com/larder-dev/larder/entry"
)

// maxKnown is the maximum number of undecodable objects that are remembered.
const maxKnown = 10_000

// undecodable has the keys of the listed objects that cannot be decoded. The list has reported them, so another event
// about one of them is no reason to list again. It is safe for concurrent use.
type undecodable struct {
	mu   sync.Mutex
	keys map[string]struct{} // guarded by mu
}

// listed records the objects of a list.
func (k *undecodable) listed(l *List) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, obj := range l.Items {
		k.noteLocked(obj.(*entry.Undecoded))
	}
}

// noteLocked remembers u if it cannot be decoded, and forgets it otherwise.
func (k *undecodable) noteLocked(u *entry.Undecoded) {
	switch {
	case u.Err() == nil:
		delete(k.keys, u.Key) // the map is nearly always nil
	case len(k.keys) < maxKnown:
		if k.keys == nil {
			k.keys = map[string]struct{}{}
		}
		k.keys[u.Key] = struct{}{}
	}
}

// knows reports whether u, the object of an event, can be decoded, or was undecodable in an earlier list.
func (k *undecodable) knows(u *entry.Undecoded) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if u.Err() == nil {
		k.noteLocked(u)
		return true
	}
	_, known := k.keys[u.Key]
	return known || len(k.keys) >= maxKnown
}
