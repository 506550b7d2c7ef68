package reflector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// deliver hands an event or bookmark of the open stream to the sink. An error is the sink's.
func (s *session) deliver(ctx context.Context, ev watch.Event) error {
	if ev.Type == watch.Bookmark {
		return s.deliverBookmark(ctx, ev)
	}
	if s.leaveOut(ctx, ev.Object) {
		// What is held under that key, and doubted, is another object.
		cur := s.cur
		s.untold = cur.Advance(eventRV(ev)) != "" || s.untold
		s.moveTo(cur)
		return nil
	}
	ref, ok := s.check(ctx, ev)
	if !ok {
		s.newest.Remove(ref.Key)
		delete(s.doubts, ref.Key)
		return nil
	}
	cur := s.cur
	rv := cur.Advance(ref.ResourceVersion)
	if err := s.sink.Event(ctx, ev.Type, ev.Object, s.resumable(rv)); err != nil {
		return err
	}
	s.moveTo(cur)
	s.untold = s.untold && rv == ""
	delete(s.doubts, ref.Key)
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
	if s.resumable(s.cur.RV) == "" {
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

// check reports whether an event can be delivered, and what it is about. One that cannot is
// logged and counted; it never moves the stream on.
func (s *session) check(ctx context.Context, ev watch.Event) (entry.ObjectRef, bool) {
	ref, err := s.refOf(ev.Object)
	if err == nil && ev.Type != watch.Deleted {
		err = s.admit(ref, ev.Object)
	}
	if err == nil && ev.Type != watch.Added && ev.Type != watch.Modified && ev.Type != watch.Deleted {
		err = fmt.Errorf("unknown event type %q", ev.Type)
	}
	if err != nil {
		s.skip(ctx, ref, err)
		return ref, false
	}
	if !entry.ComparableRV(ref.ResourceVersion) {
		klog.FromContext(ctx).V(2).Info("An event's resourceVersion cannot be compared: it does not move the stream on",
			"key", ref.Key, "resourceVersion", ref.ResourceVersion)
	}
	return ref, true
}

// skip notes an object that is not delivered.
func (s *session) skip(ctx context.Context, ref entry.ObjectRef, err error) {
	s.logSkipped(ctx, ref, err)
	var st stray
	isStray := errors.As(err, &st)
	if isStray {
		s.strays, s.stray = s.strays+1, err
		s.astray = s.astray || !st.goType
	}
	s.r.board.update(func(st *Status) {
		st.Skipped++
		if isStray {
			st.Stray = err
		}
	})
}

// skippedLogged is how many skipped objects are logged an hour. Where one is of the wrong type all are.
const skippedLogged = 10

func (s *session) logSkipped(ctx context.Context, ref entry.ObjectRef, err error) {
	logger, now := klog.FromContext(ctx), s.o.Clock.Now()
	if now.Sub(s.skippedSince) >= time.Hour {
		s.skippedSince, s.skippedCount = now, 0
	}
	switch s.skippedCount++; {
	case s.skippedCount < skippedLogged:
		logger.Error(err, "Skipped an object", "key", ref.Key)
	case s.skippedCount == skippedLogged:
		logger.Error(err, "Skipped an object; more are counted, and logged at level 2 for the next hour", "key", ref.Key)
	default:
		logger.V(2).Info("Skipped an object", "key", ref.Key, "err", err)
	}
}

// stray is why an object is none of those that are asked for.
type stray struct {
	error
	// goType: because of its Go type. Another program, with that type, does not resume from what this one has written.
	goType bool
}

func (e stray) Unwrap() error { return e.error }

// Is makes a single stray an ErrStrays too, of which a list of nothing else is the worse case.
func (e stray) Is(target error) bool { return target == ErrStrays }

// admit asks Options.Admit.
func (s *session) admit(ref entry.ObjectRef, obj runtime.Object) error {
	if s.o.Admit == nil {
		return nil
	}
	if err := s.o.Admit(obj); err != nil {
		return stray{error: fmt.Errorf("object %s: %w", ref.Key, err)}
	}
	return nil
}

// resumable is the resourceVersion that the sink may resume from: none while astray, since what should be there may be
// missing.
func (s *session) resumable(rv string) string {
	if s.astray {
		return ""
	}
	return rv
}

// refOf identifies an object, and checks that it is what we watch. The
// reference is as complete as it can be even with an error.
func (s *session) refOf(obj runtime.Object) (entry.ObjectRef, error) {
	ref, err := identify(obj)
	if err != nil {
		return ref, err
	}
	if err := checkType(s.o.ExpectedType, obj); err != nil {
		return ref, fmt.Errorf("object %s: %w", ref.Key, err)
	}
	return ref, nil
}

// identify identifies an object of any type.
func identify(obj runtime.Object) (entry.ObjectRef, error) {
	acc, err := meta.Accessor(obj)
	if err != nil {
		return entry.ObjectRef{}, fmt.Errorf("%s has no metadata", typeName(obj))
	}
	return entry.RefOf(acc), nil
}

// checkType compares an object with an example of what is expected (nil: anything but a Table, as client-go).
func checkType(want, got runtime.Object) error {
	gvk := got.GetObjectKind().GroupVersionKind()
	if gvk.Kind == "Table" && gvk.Group == metav1.GroupName {
		return errors.New("the server sent a Table; ask it for objects")
	}
	if want == nil {
		return nil
	}
	if reflect.TypeOf(want) != reflect.TypeOf(got) {
		return stray{fmt.Errorf("the server sent %s where the example object is %s", typeName(got), typeName(want)), true}
	}
	if _, ok := want.(*unstructured.Unstructured); !ok {
		return nil
	}
	if e := want.GetObjectKind().GroupVersionKind(); !e.Empty() && e != gvk {
		return stray{error: fmt.Errorf("the server sent %s where the example object is %s", gvk, e)}
	}
	return nil
}

// typeName is the Go type of an object.
func typeName(obj runtime.Object) string { return fmt.Sprintf("%T", obj) }
