package reflector

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/reflector/internal/history"
	"github.com/larder-dev/larder/reflector/internal/pace"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// errEarlyEnd is the error of a watch that the server ended in order before the end of the initial events.
var errEarlyEnd = errors.New("the watch ended before its initial events had")

const (
	// streamTime is the time-out of a list by a watch: 56 kbit/s carry 150 MB in it.
	streamTime = 6 * time.Hour
	// streamPage is how many objects of such a list make a page: they are large, since two of them took a minute.
	streamPage = 16
)

// streamed is a list that comes as a watch (sendInitialEvents, KEP-3157). It is for servers that cut off the smallest
// page: they do not cut off a watch.
//
//	ADDED … ADDED ── (events that happen meanwhile) ── BOOKMARK k8s.io/initial-events-end (R) ── events
//	└─ pages ───────┘└─ Event ─────────────────────┘   └─ EndReplace(R)                         └─ the live watch
type streamed struct {
	*list
	st *stream
	// page is how many items Sink.Page gets at a time.
	page int
	// items collects the next page.
	items []runtime.Object
	// moving is true once an event has come that is not ADDED. A later ADDED may recreate an object that was deleted
	// meanwhile: then it is newer than the delete, so it is an Event and not an item of a page.
	moving bool
	// complete is true once the bookmark at the end of the initial events has come.
	complete bool
}

// streamList lists by a watch. done is false if the list has to come in pages instead.
func (s *session) streamList(ctx context.Context, reason Reason) (o outcome, done bool) {
	s.lists.unlimited = false
	l := &streamed{list: newList(s, reason), page: min(streamPage, int(s.o.PageSize))}
	yes := true
	st, err := s.conn.openWith(ctx, metav1.ListOptions{
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}, streamTime, s.conn.tells(ctx, "watch"))
	if err != nil {
		return s.streamFailed(ctx, err)
	}
	l.st = st
	s.conn.heard()
	s.conn.connected()
	if o, err = l.run(ctx); o.Kind == listed {
		s.watching.stream, s.watching.fresh = st, false
		return l.finish(ctx), true
	}
	st.close(ctx, s.o.Clock)
	if done = true; err != nil {
		o, done = s.streamFailed(ctx, s.conn.describe("list by a watch", err))
	}
	if aborted := l.abort(ctx, o); aborted.Kind != o.Kind {
		return aborted, true
	}
	return o, done
}

// streamFailed handles an error of the watch. done is false if lists have to come in pages instead: for the rest of the
// run if the server refuses or ignores the parameters, for this list if it does not serve watches.
func (s *session) streamFailed(ctx context.Context, err error) (o outcome, done bool) {
	broken := errors.Is(err, ErrNoInitialEvents) || errors.Is(err, ErrSlowInitialEvents)
	switch {
	case ctx.Err() != nil:
		return outcome{Kind: stop}, true
	case request.Refused(err):
		s.lists.watchLists = false
	case broken, isDenied(err):
		s.lists.watchLists = s.lists.watchLists && !broken
		s.conn.report(ctx, err)
	default:
		return s.lose(ctx, err), true
	}
	klog.FromContext(ctx).Info("The list does not come as a watch; asking for pages", "err", err, "again",
		s.lists.watchLists)
	return outcome{}, false
}

// run reads the initial events. It returns an outcome, or an error of the watch.
func (l *streamed) run(ctx context.Context) (outcome, error) {
	s := l.s
	g := request.Gather(ctx, l.st.w.ResultChan(), l.page)
	defer g.Close()
	silence := s.o.Clock.NewTimer(pace.MaxSilence)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return outcome{Kind: stop}, nil
		case <-g.Beats:
			s.conn.heard()
			l.st.heard = s.o.Clock.Now()
		case events, ok := <-g.Batches:
			if !ok {
				return outcome{}, l.ended()
			}
			if o, err := l.take(ctx, events); o.Kind != "" || err != nil {
				return o, err
			}
			l.st.heard = s.o.Clock.Now()
		case <-silence.C():
			rest := pace.MaxSilence - s.o.Clock.Since(l.st.heard)
			if rest <= 0 {
				return outcome{}, ErrSlowInitialEvents
			}
			silence.Reset(rest)
		}
	}
}

// take handles events in order. The outcome is empty until the initial events are complete.
func (l *streamed) take(ctx context.Context, events []watch.Event) (outcome, error) {
	for _, ev := range events {
		if ev.Type == watch.Error {
			return outcome{}, request.EventError(ev)
		}
		l.s.message(l.st)
		if ev.Type == watch.Bookmark && !initialEventsEnd(ev) {
			return outcome{}, ErrNoInitialEvents
		}
		if err := l.handle(ctx, ev); err != nil {
			return l.s.sinkClosed(err), nil
		}
	}
	if !l.complete {
		return outcome{}, nil
	}
	l.s.healthy()
	return l.judge(ctx), nil
}

// handle delivers one event, or collects it for the next page. An error is the sink's.
func (l *streamed) handle(ctx context.Context, ev watch.Event) error {
	if !l.begun {
		if err := l.begin(ctx, ""); err != nil {
			return err
		}
	}
	l.moving = l.moving || ev.Type != watch.Added
	if !l.moving {
		l.items = append(l.items, ev.Object)
		if len(l.items) < l.page {
			return nil
		}
	}
	items := l.items
	l.items = nil
	if err := l.deliver(ctx, items); err != nil {
		return err
	}
	switch {
	case ev.Type == watch.Bookmark:
		l.s.watching.bookmarks, l.complete = true, true
		l.st.bookmarks++
		l.fold = history.Progress{RV: eventRV(ev)}
	case l.moving:
		return l.foldIn(ctx, ev)
	}
	return nil
}

// ended returns the error of a watch that ended in order without the bookmark.
func (l *streamed) ended() error {
	full, lively := l.st.end(l.s.o.Clock.Now())
	switch {
	case full:
		return ErrSlowInitialEvents
	case lively:
		return errEarlyEnd
	}
	return ErrShortWatch
}

// initialEventsEnd reports whether ev is the bookmark that ends the initial events. Servers send no other one before.
func initialEventsEnd(ev watch.Event) bool {
	acc, err := meta.Accessor(ev.Object)
	return ev.Type == watch.Bookmark && err == nil && acc.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
