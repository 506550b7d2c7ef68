package history

import "github.com/larder-dev/larder/entry"

// touchedMax bounds the number of event keys that ListNewest remembers.
const touchedMax = 10_000

// ListNewest finds the newest objects of a list that has a watch beside it. An event for a key is newer than the list's
// item of that key, whichever arrives first. In particular, an item that was deleted by an event must not reappear.
type ListNewest struct {
	items  Newest
	events Newest
	// touched contains the keys of all events so far; nil once there were more than touchedMax.
	touched map[string]struct{}
}

func NewListNewest() *ListNewest {
	return &ListNewest{touched: map[string]struct{}{}}
}

func (l *ListNewest) Item(ref entry.ObjectRef) {
	if _, ok := l.touched[ref.Key]; !ok {
		l.items.Put(ref)
	}
}

func (l *ListNewest) Put(ref entry.ObjectRef) {
	l.touch(ref.Key)
	l.events.Put(ref)
}

func (l *ListNewest) Remove(key string) {
	l.touch(key)
	l.events.Remove(key)
}

func (l *ListNewest) touch(key string) {
	l.items.Remove(key)
	if l.touched == nil {
		return
	}
	l.touched[key] = struct{}{}
	if len(l.touched) > touchedMax {
		l.touched = nil
	}
}

// Result returns the newest objects of the items and events. After events for more than touchedMax keys, it returns the
// newest objects of the events only.
func (l *ListNewest) Result() Newest {
	n := l.events
	if l.touched == nil {
		return n
	}
	for _, ref := range l.items.Refs {
		n.Put(ref)
	}
	return n
}
