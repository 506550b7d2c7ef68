package wire

import (
	"sync"

	"github.com/larder-dev/larder/entry"
)

const maxKnown = 10_000

// undecodable has the keys of listed objects that cannot be decoded. The list has reported these objects as errors, so
// an event about such an object need not cause another list.
type undecodable struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

func (k *undecodable) listed(l *List) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, obj := range l.Items {
		k.noteLocked(obj.(*entry.Undecoded))
	}
}

func (k *undecodable) noteLocked(u *entry.Undecoded) {
	switch {
	case u.Err() == nil:
		delete(k.keys, u.Key)
	case len(k.keys) < maxKnown:
		if k.keys == nil {
			k.keys = map[string]struct{}{}
		}
		k.keys[u.Key] = struct{}{}
	}
}

// knows reports whether an event's object u may be delivered: u can be decoded, or a list has reported that it cannot.
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
