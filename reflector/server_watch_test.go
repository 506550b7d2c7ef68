package reflector_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

type openWatch struct {
	s      *server
	ctx    context.Context
	cancel context.CancelFunc
	result chan watch.Event
	queue  []*watch.Event
	// ended is true if no more events will follow. s.mu guards queue, ended, mute and bookRV.
	ended bool
	kick  chan struct{}
	// mute is true if the connection is half-open, so nothing is sent.
	mute bool
	// bookRV is the resourceVersion of the last message, or at the start of the watch.
	bookRV  int
	timeout time.Duration
}

func (w *openWatch) Stop() { w.cancel() }

func (w *openWatch) ResultChan() <-chan watch.Event { return w.result }

func (w *openWatch) run() {
	defer close(w.result)
	defer w.cancel()
	var deadline, early <-chan time.Time
	if w.timeout > 0 {
		t := time.NewTimer(w.timeout)
		defer t.Stop()
		deadline = t.C
		e := time.NewTimer(max(w.timeout-2*time.Second, 0))
		defer e.Stop()
		early = e.C
	}
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		ev, ended := w.take()
		if ended {
			return
		}
		var out chan watch.Event
		if ev != nil {
			out = w.result
		} else {
			ev = &watch.Event{}
		}
		select {
		case <-w.ctx.Done():
			return
		case out <- *ev:
			w.sent(ev)
		case <-w.kick:
		case <-minute.C:
			w.s.bookmark(w)
		case <-early:
			w.s.bookmark(w)
		case <-deadline:
			w.s.mu.Lock()
			mute := w.mute
			w.s.mu.Unlock()
			if !mute {
				return
			}
		}
	}
}

func (w *openWatch) take() (*watch.Event, bool) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.mute || len(w.queue) == 0 {
		return nil, w.ended && !w.mute
	}
	return w.queue[0], false
}

// sent removes the sent event ev from the queue, unless the queue was emptied meanwhile.
func (w *openWatch) sent(ev *watch.Event) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if len(w.queue) > 0 && w.queue[0] == ev {
		w.queue = w.queue[1:]
	}
}

func (w *openWatch) pushLocked(ev watch.Event) {
	if w.ended {
		return
	}
	w.queue = append(w.queue, &ev)
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

func (s *server) bookmark(w *openWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noBookmarks || w.bookRV >= s.rv {
		return
	}
	w.bookRV = s.rv
	w.pushLocked(watch.Event{Type: watch.Bookmark,
		Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(s.rv)}}})
}

func (s *server) withoutEvents(change func()) {
	s.mu.Lock()
	watches := s.watches
	s.watches = nil
	s.mu.Unlock()
	change()
	s.mu.Lock()
	s.watches = append(s.watches, watches...)
	s.mu.Unlock()
}

// cut ends every open watch: in order if err is nil, otherwise with an ERROR event. Queued events are lost, but the
// event of a put just before may have been delivered; withoutEvents prevents that.
func (s *server) cut(err *apierrors.StatusError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		w.queue = nil
		if err != nil {
			w.pushLocked(watch.Event{Type: watch.Error, Object: &err.ErrStatus})
		}
		w.ended = true
		select {
		case w.kick <- struct{}{}:
		default:
		}
	}
	s.watches = nil
}

func (s *server) mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		w.mute = true
	}
	s.watches = nil
}

func (s *server) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	r := s.log(request{Watch: true, ListOptions: o})
	if s.onWatch != nil {
		if w, err := s.onWatch(ctx, r); w != nil || err != nil {
			return w, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.watch(ctx, r)
}

func (s *server) watch(ctx context.Context, r request) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, err := strconv.Atoi(r.ResourceVersion)
	if err != nil && r.ResourceVersion != "" {
		return nil, apierrors.NewBadRequest("invalid resourceVersion")
	}
	w := &openWatch{s: s, result: make(chan watch.Event), kick: make(chan struct{}, 1), bookRV: from}
	w.ctx, w.cancel = context.WithCancel(ctx)
	if r.TimeoutSeconds != nil {
		w.timeout = time.Duration(*r.TimeoutSeconds) * time.Second
	}
	if from < s.floor {
		gone := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", from, s.floor))
		if !s.expireInBand {
			w.cancel()
			return nil, gone
		}
		w.pushLocked(watch.Event{Type: watch.Error, Object: &gone.ErrStatus})
		w.ended = true
	}
	for _, p := range s.history {
		if p.rv > from && s.sends(p.obj) {
			w.pushLocked(watch.Event{Type: p.typ, Object: p.obj.DeepCopy()})
			w.bookRV = p.rv
		}
	}
	if !w.ended {
		s.watches = append(s.watches, w)
	}
	go w.run()
	return w, nil
}
