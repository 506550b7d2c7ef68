package reflector

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector/internal/history"
	"github.com/larder-dev/larder/reflector/internal/pace"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// errEarlyEnd is the error of a watch that the server ended in order before the end of the initial events.
var errEarlyEnd = errors.New("the watch ended before its initial events had")

const (
	// streamTime is the time-out of a list by a watch: 56 kbit/s carry 150 MB in it.
	streamTime = 6 * time.Hour
	// streamPage is how many objects of a list by a watch make a page. The objects are large, since two of them took a
	// minute.
	streamPage = 16
)

// streamed is a list that is requested as a watch (sendInitialEvents, KEP-3157). It is for servers that cut off the
// smallest page: they do not cut off a watch.
//
//	ADDED … ADDED ── (events that happen meanwhile) ── BOOKMARK k8s.io/initial-events-end (R) ── events
//	└─ pages ───────┘└─ Event ─────────────────────┘   └─ EndReplace(R)                         └─ the live watch
type streamed struct {
	*list
	st *stream
	// page is how many items Sink.Page receives at a time.
	page int
	// items collects the next page.
	items []runtime.Object
	// moving is true after the first event that is not ADDED. A later ADDED may recreate an object that was deleted
	// meanwhile. It is newer than that deletion, so it is delivered by Event and not in a page.
	moving bool
	// complete is true once the bookmark at the end of the initial events has arrived.
	complete bool
}

// streamList lists by a watch.
func (s *session) streamList(ctx context.Context, reason Reason) outcome {
	s.lists.unlimited = false
	l := &streamed{list: newList(s, reason), page: min(streamPage, int(s.o.PageSize))}
	yes := true
	st, err := s.conn.openWith(ctx, metav1.ListOptions{
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}, streamTime, s.conn.overdueReporter(ctx, "watch"))
	if err != nil {
		return l.failed(ctx, err)
	}
	l.st, l.at = st, st.begun
	s.conn.heard()
	s.showListOnly(false)
	s.conn.connected()
	o := l.run(ctx)
	if o.Kind == listed {
		s.watching.stream, s.watching.fresh = st, false
		return l.finish(ctx)
	}
	st.close(ctx, s.o.Clock)
	return l.abort(ctx, o)
}

// failed handles an error of the watch. The next list is requested in pages. So are all others of the run if the server
// refuses or ignores the parameters.
func (l *streamed) failed(ctx context.Context, err error) outcome {
	if request.Refused(err) || errors.Is(err, ErrNoInitialEvents) || errors.Is(err, ErrSlowInitialEvents) {
		l.s.lists.watchLists = false
	}
	return l.s.lose(ctx, err)
}

// run reads the watch until its initial events are complete.
func (l *streamed) run(ctx context.Context) outcome {
	s := l.s
	silence := s.o.Clock.NewTimer(pace.MaxSilence)
	defer silence.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return outcome{Kind: stop}
		case ev, ok := <-l.st.w.ResultChan():
			switch {
			case !ok:
				err = l.ended()
			case ev.Type == watch.Error:
				err = request.EventError(ev)
			case ev.Type == watch.Bookmark && !initialEventsEnd(ev):
				err = ErrNoInitialEvents
			default:
				s.message(l.st)
				if err := l.handle(ctx, ev); err != nil {
					return s.sinkClosed(err)
				}
				if l.complete {
					s.healthy()
					return l.judge(ctx)
				}
				l.st.heard = s.o.Clock.Now()
			}
		case <-silence.C():
			rest := pace.MaxSilence - s.o.Clock.Since(l.st.heard)
			if rest <= 0 {
				err = ErrSlowInitialEvents
			}
			silence.Reset(rest)
		}
		if err != nil {
			return l.failed(ctx, s.conn.describe("list by a watch", err))
		}
	}
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
		l.fold = history.At(eventRV(ev))
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

// initialEventsEnd reports whether ev is the bookmark that ends the initial events. Servers send no other bookmark
// before.
func initialEventsEnd(ev watch.Event) bool {
	acc, err := meta.Accessor(ev.Object)
	return ev.Type == watch.Bookmark && err == nil && acc.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
