package reflector

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

func (s *session) deliver(ctx context.Context, ev watch.Event) error {
	if ev.Type == watch.Bookmark {
		return s.deliverBookmark(ctx, ev)
	}
	s.forgetLeftOut(ev.Object)
	if s.gate.LeaveOut(ctx, ev.Object) {
		// An object of another UID is stored under this key, so the lists of newest and of awaited objects keep the
		// stored object.
		s.conn.contact(s.o.Clock.Now())
		cur := s.cur
		s.unreported = cur.Advance(eventRV(ev)) != "" || s.unreported
		s.moveTo(cur)
		return nil
	}
	ref, ok := s.gate.Check(ctx, ev)
	if !ok {
		s.newest.Remove(ref.Key)
		delete(s.guards.awaited, ref.Key)
		return nil
	}
	s.conn.contact(s.o.Clock.Now())
	cur := s.cur
	rv := cur.Advance(ref.ResourceVersion)
	if err := s.sink.Event(ctx, ev.Type, ev.Object, s.gate.Resumable(rv)); err != nil {
		return err
	}
	s.moveTo(cur)
	s.unreported = s.unreported && rv == ""
	s.guards.awaited.explain(ev.Type, ref)
	if ev.Type == watch.Deleted {
		s.newest.Remove(ref.Key)
	} else {
		s.newest.Put(ref)
	}
	return nil
}

// deliverBookmark drops a bookmark below the delivered resourceVersion, or with one that cannot be compared.
func (s *session) deliverBookmark(ctx context.Context, ev watch.Event) error {
	s.watching.bookmarks = true
	s.watching.stream.bookmarks++
	rv := eventRV(ev)
	cur := s.cur
	at := cur.Advance(rv)
	if cur.RV != rv {
		return nil
	}
	s.conn.contact(s.o.Clock.Now())
	s.moveTo(cur)
	if at == "" {
		return nil
	}
	return s.reportPosition(ctx)
}

// reportPosition sends the Sink a bookmark at the delivered resourceVersion, unless a watch could not resume from it.
func (s *session) reportPosition(ctx context.Context) error {
	s.unreported = false
	if !s.cur.Comparable() || s.gate.Resumable(s.cur.RV) == "" {
		return nil
	}
	return s.sink.Bookmark(ctx, s.cur.RV)
}

func eventRV(ev watch.Event) string {
	acc, err := meta.Accessor(ev.Object)
	if err != nil {
		return ""
	}
	return acc.GetResourceVersion()
}

// maxCutLookups is how often the look-up of an object of Checkpoint.LeftOut is retried if the answer breaks off.
const maxCutLookups = 2

// fetchLeftOut delivers the objects of Checkpoint.LeftOut, which the Sink could not store, a second time. A watch is
// then open that has caught up with the server. Readers of the Sink have seen no later state of these objects, so the
// delivery follows all states that readers know. fetchLeftOut skips objects that were changed or deleted since: the
// watch delivers their events. It requests a list if single objects cannot be requested, if the watch cannot show how
// far it has advanced, or if the server was restored from a backup. The outcome is empty if no such object is left.
func (s *session) fetchLeftOut(ctx context.Context) outcome {
	if !s.lists.ended.IsZero() {
		s.leftOut = nil // a list of this run has delivered these objects
	}
	if len(s.leftOut) == 0 {
		return outcome{}
	}
	if !s.cur.Reached(s.guards.target) {
		return s.listFor(ReasonLeftOut)
	}
	if s.unreported {
		if err := s.reportPosition(ctx); err != nil {
			return s.sinkClosed(err)
		}
	}
	klog.FromContext(ctx).Info("Getting objects again that were left out", "objects", len(s.leftOut))
	for ; len(s.leftOut) > 0; s.leftOut = s.leftOut[1:] {
		held := s.leftOut[0]
		got, err := s.guards.lookUpOne(ctx, held.Key, true)
		switch {
		case ctx.Err() != nil:
			return outcome{Kind: stop}
		case isDenied(err), errors.Is(err, errNoLookups):
			klog.FromContext(ctx).Info("An object that was left out cannot be looked up; listing", "key", held.Key, "err", err)
			return s.listFor(ReasonLeftOut)
		case errors.Is(err, errTooLong), s.cuts == maxCutLookups && isCut(err):
			// Give up this object, whose answer always breaks off. The next run's Checkpoint.LeftOut contains it.
			s.cuts = 0
			klog.FromContext(ctx).Info("An object that was left out does not come over the link; going on without it", "key",
				held.Key, "err", err)
			continue
		case err != nil:
			if isCut(err) {
				s.cuts++
			}
			return s.lose(ctx, err)
		}
		s.cuts = 0
		switch checkHeld(held, s.cur.RV, got.ref, got.obj != nil) {
		case contradicts:
			klog.FromContext(ctx).Info("An object that was left out is another one at the server: "+rewound, "key", held.Key,
				"leftOut", held.ResourceVersion, "server", got.ref.ResourceVersion, "resourceVersion", s.cur.RV)
			return s.listFor(ReasonRewound)
		case agrees:
			if err := s.deliverAgain(ctx, got.obj); err != nil {
				return s.sinkClosed(err)
			}
		case changed:
		}
	}
	st, now := s.watching.stream, s.o.Clock.Now()
	st.waitBegun = now // no event was read during the look-ups, so the watch's silence is measured from now
	st.slow = st.slow || !now.Before(st.begun.Add(st.timeout))
	s.healthy() // clears the error of an overdue look-up
	return outcome{}
}

// forgetLeftOut removes an event's object from the objects of Checkpoint.LeftOut, since the event is newer.
func (s *session) forgetLeftOut(obj runtime.Object) {
	if len(s.leftOut) == 0 {
		return
	}
	if ref, err := identify(obj); err == nil {
		s.leftOut = slices.DeleteFunc(slices.Clone(s.leftOut), func(l entry.ObjectRef) bool { return l.Key == ref.Key })
	}
}

// deliverAgain delivers an object with an older resourceVersion than the delivered one, which stays unchanged.
func (s *session) deliverAgain(ctx context.Context, obj runtime.Object) error {
	if s.gate.LeaveOut(ctx, obj) {
		return nil
	}
	if _, ok := s.gate.Check(ctx, watch.Event{Type: watch.Modified, Object: obj}); !ok {
		return nil
	}
	return s.sink.Event(ctx, watch.Modified, obj, "")
}
