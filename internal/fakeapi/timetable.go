package fakeapi

import "time"

const (
	bookmarkEvery     = time.Minute
	bookmarkBeforeEnd = 2 * time.Second
)

// timetable says when a watch gets bookmarks: about once a minute, and two
// seconds before its time is over (cacher/cache_watcher.go, nextBookmarkTime).
type timetable struct {
	end time.Time
	// next is zero when there is none to come.
	next time.Time
	// floor is the RV that the server must be past.
	floor uint64
}

func newTimetable(now time.Time, timeout time.Duration) timetable {
	t := timetable{end: now.Add(timeout)}
	t.schedule(now)
	return t
}

func (t *timetable) schedule(now time.Time) {
	t.next = now.Add(bookmarkEvery)
	if last := t.end.Add(-bookmarkBeforeEnd); last.Before(t.next) {
		t.next = last
	}
	if !t.next.After(now) {
		t.next = time.Time{}
	}
}

// due reports whether it is time, and plans the next.
func (t *timetable) due(now time.Time) bool {
	if t.next.IsZero() || now.Before(t.next) {
		return false
	}
	t.schedule(now)
	return true
}

// until is how long to sleep.
func (t *timetable) until(now time.Time) time.Duration {
	if t.next.IsZero() {
		return bookmarkEvery
	}
	return t.next.Sub(now)
}
