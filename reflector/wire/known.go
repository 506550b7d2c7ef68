package wire

import (
	"sync"

	"github.com/larder-dev/larder/entry"
)

// maxKnown is the maximum number of listed objects that are remembered as undecodable.
const maxKnown = 10_000

// undecodable has the keys of listed objects that cannot be decoded. The list has reported these objects as errors, so
// an event about one of them need not cause another list. It is safe for concurrent use.
type undecodable struct {
	mu   sync.Mutex
	keys map[string]struct{} // guarded by mu; the keys of these objects
}

// listed records which objects of a list can be decoded.
func (k *undecodable) listed(l *List) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, obj := range l.Items {
		k.noteLocked(obj.(*entry.Undecoded))
	}
}

// noteLocked records the key of u if u cannot be decoded, and otherwise removes the key.
func (k *undecodable) noteLocked(u *entry.Undecoded) {
	switch {
	case u.Err() == nil:
		delete(k.keys, u.Key) // deleting from a nil map is allowed; the map is nearly always nil
	case len(k.keys) < maxKnown:
		if k.keys == nil {
			k.keys = map[string]struct{}{}
		}
		k.keys[u.Key] = struct{}{}
	}
}

// knows reports whether an event's object u may be delivered: it can be decoded, or an earlier list has reported it as
// undecodable.
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
