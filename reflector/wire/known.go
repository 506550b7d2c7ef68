package wire

import (
	"sync"

	"github.com/larder-dev/larder/entry"
)

// maxKnown is how many objects are remembered that cannot be decoded.
const maxKnown = 10_000

// undecodable has the keys of the objects that lists had, and that cannot be decoded. Whoever has seen the list knows
// of them, so another event about one is no reason to list again. It is safe for concurrent use.
type undecodable struct {
	mu   sync.Mutex
	keys map[string]struct{} // guarded by mu
}

// listed takes in the objects of a list.
func (k *undecodable) listed(l *List) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, obj := range l.Items {
		k.noteLocked(obj.(*entry.Undecoded))
	}
}

// noteLocked remembers u if it cannot be decoded, and forgets it if it can.
func (k *undecodable) noteLocked(u *entry.Undecoded) {
	switch {
	case u.Err() == nil:
		delete(k.keys, u.Key) // of none, nearly always
	case len(k.keys) < maxKnown:
		if k.keys == nil {
			k.keys = map[string]struct{}{}
		}
		k.keys[u.Key] = struct{}{}
	}
}

// knows reports whether u, which an event has brought, can be decoded, or was listed before.
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
