package reflector

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
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
