package reflector

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
)

// deliver hands an event or bookmark of the open stream to the sink. An error is the sink's.
func (s *session) deliver(ctx context.Context, ev watch.Event) error {
	if ev.Type == watch.Bookmark {
		return s.deliverBookmark(ctx, ev)
	}
	if s.gate.LeaveOut(ctx, ev.Object) {
		// What is held under that key, and awaited, is another object.
		cur := s.cur
		s.untold = cur.Advance(eventRV(ev)) != "" || s.untold
		s.moveTo(cur)
		return nil
	}
	ref, ok := s.gate.Check(ctx, ev)
	if !ok {
		s.newest.Remove(ref.Key)
		delete(s.guards.awaited, ref.Key)
		return nil
	}
	cur := s.cur
	rv := cur.Advance(ref.ResourceVersion)
	if err := s.sink.Event(ctx, ev.Type, ev.Object, s.gate.Resumable(rv)); err != nil {
		return err
	}
	s.moveTo(cur)
	s.untold = s.untold && rv == ""
	delete(s.guards.awaited, ref.Key)
	if ev.Type == watch.Deleted {
		s.newest.Remove(ref.Key)
	} else {
		s.newest.Put(ref)
	}
	return nil
}

// deliverBookmark moves on; one that is behind, or whose resourceVersion says nothing, is dropped.
func (s *session) deliverBookmark(ctx context.Context, ev watch.Event) error {
	s.bookmarks = true
	s.stream.bookmarks++
	rv := eventRV(ev)
	cur := s.cur
	if at := cur.Advance(rv); at == "" || at != rv {
		return nil
	}
	s.moveTo(cur)
	return s.tellPlace(ctx)
}

// tellPlace tells the sink where the stream stands.
func (s *session) tellPlace(ctx context.Context) error {
	s.untold = false
	if s.gate.Resumable(s.cur.RV) == "" {
		return nil
	}
	return s.sink.Bookmark(ctx, s.cur.RV)
}

// eventRV is the resourceVersion of an event or bookmark; empty if it has none.
func eventRV(ev watch.Event) string {
	acc, err := meta.Accessor(ev.Object)
	if err != nil {
		return ""
	}
	return acc.GetResourceVersion()
}
