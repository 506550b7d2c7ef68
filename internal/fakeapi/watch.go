package fakeapi

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// defaultWatchTimeout is the timeout of watches that request none; kube-apiserver uses 30 to 60 minutes.
const defaultWatchTimeout = 30 * time.Minute

// flushBytes is the size at which a watch's buffer is sent although more events are available.
const flushBytes = 64 << 10

// watcher is one open watch. The handler's goroutine owns it, except the fields guarded by storage.mu.
type watcher struct {
	q     *request
	table *table
	// next is the number of the next event of table.log to send; storage.mu guards it.
	next uint64
	// base is a resourceVersion; the watch sends only newer events.
	base uint64
	// initial is the list of objects that is sent first. If awaiting is true, a bookmark at resourceVersion awaited or
	// later must mark the end of that list.
	initial  []*object
	awaiting bool
	awaited  uint64

	bookmarks uint64
	broken    Break
	timetable timetable
	// sent is the number of sent events, without bookmarks. counted is the number of events that were reported to counter
	// at the last flush.
	sent, counted int
	counter       func(n int)
	frame         []byte
}

// serveWatch answers a watch until its timeout, or until a fault, Stop or the client ends it.
func (s *Server) serveWatch(q *request) error {
	timeout := defaultWatchTimeout
	if seconds := q.options.TimeoutSeconds; seconds != nil && *seconds > 0 {
		timeout = time.Duration(*seconds) * time.Second
	}
	w := &watcher{q: q, timetable: newTimetable(time.Now(), timeout)}
	w.counter = func(n int) { s.requestLog.sentEvents(q.kind.GroupVersionResource, n) }
	err := s.openWatch(w)
	q.w.Header().Set("Content-Type", q.repr.streamType())
	q.w.WriteHeader(http.StatusOK)
	if err != nil {
		// As in kube-apiserver, errors after the parsing of the request are sent inside the stream.
		w.fail(err)
		return nil
	}
	defer s.closeWatch(w)
	defer w.flush()
	w.flush()
	ctx, cancel := context.WithTimeout(q.r.Context(), timeout)
	defer cancel()
	w.run(ctx, s.storage)
	return nil
}

// openWatch registers the watch, and sets its initial state or its first event.
func (s *storage) openWatch(w *watcher) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := w.q.options
	t := s.tables[w.q.kind.GroupVersionResource]
	wantsInitial := o.SendInitialEvents != nil && *o.SendInitialEvents
	switch {
	case wantsInitial || o.rv == 0 && o.SendInitialEvents == nil:
		w.initial = t.ordered()
		w.next, w.base = t.end(), s.rv
		w.awaiting, w.awaited = wantsInitial && o.AllowWatchBookmarks, o.rv
	case o.rv == 0:
		w.next, w.base = t.end(), s.rv
	case o.rv < s.oldestLocked(t):
		return expiredWatch(formatRV(o.rv), formatRV(s.oldestLocked(t)))
	default:
		w.next, w.base = t.after(o.rv), o.rv
		if n := len(t.log); n > 0 && w.next < t.end() {
			// The watch starts with the events in the history, so its bookmarks must be newer than these events.
			w.timetable.floor = t.log[n-1].rv
		}
	}
	w.timetable.floor = max(w.timetable.floor, w.base)
	w.table = t
	w.bookmarks = s.bookmarks
	t.watches[w] = struct{}{}
	return nil
}

func (s *storage) closeWatch(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(w.table.watches, w)
}

// work is the events and bookmarks that a watch sends next, or the reason why the watch ends.
type work struct {
	events   []*event
	rv       uint64
	bookmark bool
	broken   Break
	changed  <-chan struct{}
}

// take returns the events since the last call, up to the resourceVersion work.rv.
func (s *storage) take(w *watcher) work {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := w.table
	job := work{rv: s.rv, bookmark: s.bookmarks != w.bookmarks, broken: w.broken, changed: t.changed}
	w.bookmarks = s.bookmarks
	if w.next < t.first {
		// The history no longer has the next event, because the client reads too slowly. So the watch ends.
		job.broken = BreakEOF
		return job
	}
	job.events = t.log[w.next-t.first:]
	w.next = t.end()
	return job
}

func (w *watcher) run(ctx context.Context, s *storage) {
	if w.cut() {
		return
	}
	for _, o := range w.initial {
		if w.q.selects(o) && !w.sendObject(watch.Added, o) {
			return
		}
	}
	w.initial = nil
	for {
		job := s.take(w)
		if job.broken != "" {
			w.flush()
			w.q.end(job.broken)
			return
		}
		for _, e := range job.events {
			if e.rv > w.base && !w.sendEvent(e) {
				return
			}
		}
		w.maybeBookmark(job, time.Now())
		w.flush()
		if !w.wait(ctx, job.changed) {
			return
		}
	}
}

func (w *watcher) wait(ctx context.Context, changed <-chan struct{}) bool {
	timer := time.NewTimer(w.timetable.until(time.Now()))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-w.q.stopping:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// maybeBookmark sends a bookmark if the client allows bookmarks and one is due or was requested by Bookmark.
func (w *watcher) maybeBookmark(job work, now time.Time) {
	due := w.timetable.due(now)
	switch {
	case w.awaiting && job.rv >= w.awaited:
		w.awaiting = false
		w.sendBookmark(job.rv, true)
	case w.awaiting || !w.q.options.AllowWatchBookmarks:
	case job.bookmark && job.rv >= w.base, due && job.rv > w.timetable.floor:
		w.sendBookmark(job.rv, false)
	}
}

// sendEvent sends an event as ADDED, MODIFIED or DELETED, depending on whether the selectors match the object before
// and after the event, or sends nothing.
func (w *watcher) sendEvent(e *event) bool {
	was, is := w.q.selects(e.prev), w.q.selects(e.cur)
	switch {
	case is && !was:
		return w.sendObject(watch.Added, e.cur)
	case is:
		return w.sendObject(watch.Modified, e.cur)
	case was:
		gone, err := e.gone()
		if err != nil {
			w.fail(err)
			return false
		}
		return w.sendObject(watch.Deleted, gone)
	}
	return true
}

func (w *watcher) sendObject(t watch.EventType, o *object) bool {
	f := w.q.fault
	if f != nil && f.SwallowEvents && w.sent >= f.AfterEvents {
		return true
	}
	body, err := o.standalone(w.q.repr)
	if err != nil {
		w.fail(err)
		return false
	}
	w.sent++
	return w.write(t, body) && !w.cut()
}

// cut applies the injected fault of the watch's request, if the fault is due. It returns true if the fault ends the
// watch.
func (w *watcher) cut() bool {
	f := w.q.fault
	if f == nil || w.sent < f.AfterEvents {
		return false
	}
	if f.InStream && f.Status != 0 {
		w.fail(f.status())
		return true
	}
	if f.Break == "" {
		return false
	}
	w.flush()
	w.q.end(f.Break)
	return true
}

func (w *watcher) sendBookmark(rv uint64, initialEventsEnd bool) {
	body, err := w.q.kind.bookmark(w.q.repr, rv, initialEventsEnd)
	if err != nil {
		w.fail(err)
		return
	}
	w.write(watch.Bookmark, body)
}

func (w *watcher) fail(err error) {
	body, encodeErr := statusBody(*statusOf(err), w.q.repr)
	if encodeErr == nil {
		w.write(watch.Error, body)
	}
	w.flush()
}

// write adds an event to the buffer. It returns false if the client has closed the connection.
func (w *watcher) write(t watch.EventType, body []byte) bool {
	if w.q.repr.protobuf() {
		w.frame = appendWatchFrame(w.frame, string(t), body)
	} else {
		w.frame = append(w.frame, `{"type":"`...)
		w.frame = append(w.frame, t...)
		w.frame = append(w.frame, `","object":`...)
		w.frame = append(w.frame, body...)
		w.frame = append(w.frame, "}\n"...)
	}
	if len(w.frame) < flushBytes {
		return true
	}
	_, err := w.q.w.Write(w.frame)
	w.frame = w.frame[:0]
	return err == nil
}

// flush sends the buffer. A write error is ignored, because it also ends the context of the request.
func (w *watcher) flush() {
	if w.q.hijacked {
		return
	}
	// Events are counted before they are sent, so that a client that has received an event finds it in the counts.
	w.counter(w.sent - w.counted)
	w.counted = w.sent
	if len(w.frame) > 0 {
		_, _ = w.q.w.Write(w.frame)
		w.frame = w.frame[:0]
	}
	_ = http.NewResponseController(w.q.w).Flush()
}

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
