package fakeapi

import "time"

const (
	bookmarkEvery     = time.Minute
	bookmarkBeforeEnd = 2 * time.Second
)

// timetable decides when a watch gets bookmarks: about once a minute, and two seconds before its timeout
// (cacher/cache_watcher.go, nextBookmarkTime).
type timetable struct {
	end  time.Time
	next time.Time
	// floor is a resourceVersion: a periodic bookmark must have a newer one.
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

// due reports whether a bookmark is due, and if so sets the time of the next bookmark.
func (t *timetable) due(now time.Time) bool {
	if t.next.IsZero() || now.Before(t.next) {
		return false
	}
	t.schedule(now)
	return true
}

func (t *timetable) until(now time.Time) time.Duration {
	if t.next.IsZero() {
		return bookmarkEvery
	}
	return t.next.Sub(now)
}
