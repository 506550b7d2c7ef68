package reflector

import "github.com/larder-dev/larder/entry"

// touchedMax bounds the keys that listNewest remembers.
const touchedMax = 10_000

// listNewest finds the newest objects of a list with folded events. An event for a key is
// newer than the list's item, whichever comes first; in particular an item whose
// deletion has been seen must not come back.
type listNewest struct {
	items   newest
	events  newest
	touched map[string]struct{} // keys of events; nil once there were too many
}

func newListNewest() *listNewest {
	return &listNewest{touched: map[string]struct{}{}}
}

// item notes an item of a page.
func (l *listNewest) item(ref entry.ObjectRef) {
	if _, ok := l.touched[ref.Key]; !ok {
		l.items.put(ref)
	}
}

// put notes an event's object; remove a deletion.
func (l *listNewest) put(ref entry.ObjectRef) {
	l.touch(ref.Key)
	l.events.put(ref)
}

func (l *listNewest) remove(key string) {
	l.touch(key)
	l.events.remove(key)
}

func (l *listNewest) touch(key string) {
	l.items.remove(key)
	if l.touched == nil {
		return
	}
	l.touched[key] = struct{}{}
	if len(l.touched) > touchedMax {
		l.touched = nil
	}
}

// result is the newest of both. If there were too many events to remember, the items are left out.
func (l *listNewest) result() newest {
	n := l.events
	if l.touched == nil {
		return n
	}
	for _, ref := range l.items.refs {
		n.put(ref)
	}
	return n
}
