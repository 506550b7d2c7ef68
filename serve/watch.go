package serve

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/history"
)

const (
	// leastWatch is the minimum duration of a watch without timeoutSeconds; the maximum is twice as long, as in
	// kube-apiserver.
	leastWatch = 30 * time.Minute
	// bookmarkEvery is the interval of bookmarks. The last bookmark is sent bookmarkBefore the end of the watch. An
	// idle watch also flushes every bookmarkEvery, which extends its write deadline: over HTTP/2 an expired deadline
	// ends even an idle stream.
	bookmarkEvery  = time.Minute
	bookmarkBefore = 2 * time.Second
	// eventsAtOnce and eventsBytes bound the number and the size of the events that a watch takes from the history at a
	// time. An event larger than eventsBytes is taken alone.
	eventsAtOnce = 100
	eventsBytes  = 16 << 10
	// joinedBytes is the size up to which small encoded events are joined into one write. unbudgetedBytes is the size
	// of encoded events that a watch may hold outside the memory budget while its client does not read.
	joinedBytes     = 16 << 10
	unbudgetedBytes = 2 * joinedBytes
	// renderedFree is the memory, in bytes, for encoding one event or object that is not taken from the memory budget.
	renderedFree = 256 << 10
)

type watcher struct {
	*request
	selects func(entry.Entry) (bool, error)
	// history has the collection's recent changes; nil if the collection cannot change.
	history *history.Window
	at      history.Position
	from    uint64
	// rv is the resourceVersion up to which all events are sent.
	rv     string
	sentRV string
	// first is true until an event was sent. The first row of a Table has the column definitions.
	first bool

	gathered [][]byte
	size     int
	// initial is true while the initial state is being sent and its pages' memory is held.
	initial bool

	socket *websocket.Conn
}

// watch answers a watch. It returns at the watch's timeout, when the history no longer has the watch's position, or
// when the client or Handler.Close ends the watch.
func (q *request) watch() error {
	timeout := leastWatch + rand.N(leastWatch)
	if seconds := q.options.TimeoutSeconds; seconds != nil && *seconds > 0 {
		timeout = time.Duration(*seconds) * time.Second
	}
	w := &watcher{request: q, history: q.reader.History(), first: true}
	w.selects = matcherOf(q.collection, q.options)
	initial, err := w.begin()
	if err == nil && initial != nil {
		err = w.lease.resize(w.ctx, listMemory(0), memoryWait)
	}
	if apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) && !q.options.wantsInitial() {
		return err
	}
	if asksForSocket(q.r) {
		return w.overSocket(func() { w.stream(err, initial, timeout) })
	}
	q.w.Header().Set("Content-Type", q.format.stream())
	q.w.WriteHeader(http.StatusOK)
	w.stream(err, initial, timeout)
	return nil
}

// stream sends the objects of initial, unless it is nil, and then events until the timeout. err is an error from before
// the stream, which is sent as an ERROR event.
func (w *watcher) stream(err error, initial *listing, timeout time.Duration) {
	if err == nil {
		err = w.flush()
	}
	end := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(w.ctx, end)
	defer cancel()
	if err == nil && initial != nil {
		err = w.sendInitial(ctx, initial)
	}
	if err == nil {
		err = w.run(ctx, end)
	}
	if err != nil && ctx.Err() == nil { // on timeout kube-apiserver ends a watch without an error
		w.fail(err)
	}
}

// begin determines the position in the history at which the watch begins. If the client wants the existing objects
// first, begin returns a listing instead.
func (w *watcher) begin() (*listing, error) {
	o := w.options
	if o.rv > 0 {
		if err := awaitRV(w.ctx, w.collection, w.reader, o.rv); err != nil {
			return nil, err
		}
	}
	if o.wantsInitial() || o.rv == 0 && o.SendInitialEvents == nil {
		return newListing(w.collection, w.reader, w.path, o), nil
	}
	if w.rv = o.ResourceVersion; o.rv == 0 {
		w.rv = w.collection.ResourceVersion
		if w.history != nil {
			w.at, w.rv = w.history.Now()
		}
	} else if w.history != nil {
		var err error
		if w.at, err = w.history.Find(o.ResourceVersion, w.selects != nil); err != nil {
			return nil, errExpiredWatch(o.ResourceVersion, w.history.Oldest())
		}
	} else if o.ResourceVersion != w.collection.ResourceVersion {
		return nil, errExpiredWatch(o.ResourceVersion, w.collection.ResourceVersion)
	}
	w.follow(w.at, w.rv)
	return nil, nil
}

// follow makes the watch continue from a position in the history and its resourceVersion, which the client knows.
func (w *watcher) follow(at history.Position, rv string) {
	w.at, w.rv, w.sentRV = at, rv, rv
	w.from, _ = strconv.ParseUint(rv, 10, 64)
}

// sendInitial sends the existing objects as ADDED events, and then the bookmark that marks their end.
func (w *watcher) sendInitial(ctx context.Context, l *listing) error {
	defer w.lease.release()
	w.initial = true
	defer func() { w.initial = false }()
	l.reusesMemory = true
	err := l.pages(ctx, "", func(entries []entry.Entry, _ bool) (bool, error) {
		if _, err := w.holdPage(entries); err != nil {
			return false, err
		}
		for _, e := range entries {
			if err := w.sendEntry(watch.Added, e); err != nil {
				return false, err
			}
			if err := w.flushFull(); err != nil {
				return false, err
			}
		}
		return true, w.flush()
	})
	if err != nil {
		return err
	}
	w.follow(l.at, l.rv)
	if w.options.AllowWatchBookmarks {
		if err := w.bookmark(true); err != nil {
			return err
		}
	}
	return w.flush()
}

// run sends events and bookmarks until ctx ends. The last bookmark is sent shortly before end, the deadline of ctx.
func (w *watcher) run(ctx context.Context, end time.Time) error {
	next, last := time.Now().Add(bookmarkEvery), end.Add(-bookmarkBefore)
	ask := end.Add(bookmarkEvery) // without an Authorizer the rights are never checked again
	var right *recheck
	if w.Handler.options.Authorizer != nil {
		right, ask = w.recheck(), time.Now().Add(untilRecheck())
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var changed <-chan struct{}
		if w.history != nil {
			changed = w.history.Changed()
			if err := w.catchUp(); err != nil {
				return err
			}
		} else if gone, opened := w.reader.superseded(); gone {
			return errExpiredWatch(w.rv, w.rv)
		} else {
			changed = opened
		}
		now := time.Now()
		if right != nil && !now.Before(ask) {
			if err := right.err(ctx); err != nil {
				return err
			}
			ask = now.Add(untilRecheck())
		}
		ending := !now.Before(last)
		if due := !now.Before(next); due || ending {
			if next = now.Add(bookmarkEvery); ending {
				last = end.Add(bookmarkEvery) // the last bookmark is sent only once
			}
			if w.options.AllowWatchBookmarks && w.sentRV != w.rv && w.rv != "" {
				if err := w.bookmark(false); err != nil {
					return err
				}
			}
		}
		if err := w.flush(); err != nil {
			return err
		}
		timer.Reset(min(time.Until(next), time.Until(last), time.Until(ask)))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *watcher) catchUp() error {
	for {
		events, next, rv, err := w.next()
		if errors.Is(err, history.ErrExpired) {
			return errExpiredWatch(w.rv, w.history.Oldest())
		}
		if w.at, w.rv = next, rv; len(events) == 0 {
			return nil
		}
		for i, e := range events {
			if err := w.sendEvent(e); err != nil {
				return err
			}
			events[i] = nil // a sent event must not stay in memory while the client does not read
			if err := w.flushFull(); err != nil {
				return err
			}
		}
	}
}

// next returns the next events after the watch's position in the history, up to eventsAtOnce and eventsBytes, with the
// position and the resourceVersion after them.
func (w *watcher) next() (events []*history.Event, next history.Position, rv string, err error) {
	events, next, rv, err = w.history.After(w.at, eventsAtOnce)
	n, size := 0, 0
	for ; n < len(events); n++ {
		if size += events[n].Size(); size > eventsBytes && n > 0 {
			return w.history.After(w.at, n)
		}
	}
	return events, next, rv, err
}

// sendEvent sends an event as ADDED, MODIFIED or DELETED, by whether the selectors match the old and the new state.
func (w *watcher) sendEvent(e *history.Event) error {
	if w.path.namespace != "" && !inNamespace(e.Key, w.path.namespace) {
		return nil
	}
	was, is := e.Existed(w.from), !e.Deleted
	if w.selects != nil {
		var err error
		if was, err = w.selected(e.Old); err != nil {
			return err
		}
		if is, err = w.selected(e.After()); err != nil {
			return err
		}
	}
	key := frameKey{event: e, of: w.format, first: w.first && w.format.form == table}
	if w.format.form == table {
		key.second = time.Now().Unix()
	}
	of := e.New
	switch {
	case is && !was:
		key.eventType = watch.Added
	case is:
		key.eventType = watch.Modified
	case was:
		if key.eventType = watch.Deleted; !e.Deleted || of == nil {
			of = e.Old
		}
	default:
		return nil
	}
	if of != nil && !w.collection.frames.has(key) {
		if err := w.holdRendering(*of); err != nil {
			return err
		}
	}
	data, err := w.collection.frames.get(key, func() ([]byte, error) {
		var state entry.Entry
		var err error
		if of != nil {
			state = *of
		} else if state, err = w.collection.bare(e.Key); err != nil {
			return nil, err
		}
		if key.eventType == watch.Deleted {
			if state, err = w.collection.at(state, strconv.FormatUint(e.RV, 10)); err != nil {
				return nil, err
			}
		}
		return w.frame(key.eventType, state, key.first)
	})
	if err != nil {
		return errRead(err)
	}
	w.sentRV = strconv.FormatUint(e.RV, 10)
	w.write(data)
	return nil
}

func (w *watcher) selected(e *entry.Entry) (bool, error) {
	if e == nil {
		return false, nil
	}
	ok, err := w.selects(*e)
	if err != nil {
		return false, errRead(err)
	}
	return ok, nil
}

func inNamespace(key, namespace string) bool {
	return len(key) > len(namespace) && key[len(namespace)] == '/' && key[:len(namespace)] == namespace
}

// sendEntry sends an existing object as an event, before the watch's later events.
func (w *watcher) sendEntry(eventType watch.EventType, e entry.Entry) error {
	data, err := w.frame(eventType, e, w.first)
	if err != nil {
		return errRead(err)
	}
	w.write(data)
	return nil
}

func (w *watcher) bookmark(initialEventsEnd bool) error {
	var annotations map[string]string
	if initialEventsEnd {
		annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	object, err := w.collection.empty(w.format, w.rv, annotations)
	if err == nil && w.format.form == table {
		var row []byte
		if row, err = w.collection.emptyRow(object); err == nil {
			object, err = w.tableOf(row, w.rv, w.first)
		}
	}
	if err != nil {
		return err
	}
	w.sentRV = w.rv
	w.write(w.format.frame(watch.Bookmark, object))
	return nil
}

func (w *watcher) fail(err error) {
	status := statusOf(err)
	body, encodeErr := w.format.media.encode(status, "v1", "Status")
	if encodeErr == nil {
		w.write(w.format.frame(watch.Error, bytes.TrimSuffix(body, []byte("\n"))))
		_ = w.flush()
	}
}
