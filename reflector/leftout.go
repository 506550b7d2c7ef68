package reflector

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector/internal/gate"
	"github.com/larder-dev/larder/reflector/internal/history"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// fetchLeftOut delivers the objects of Checkpoint.LeftOut again, after Verify has ended with o and before the watch. It
// skips objects that have changed or were deleted since: the watch brings their events. It requests a list if the
// server refuses look-ups or the ListerWatcher cannot make them.
func (s *session) fetchLeftOut(ctx context.Context, o outcome) outcome {
	if !s.lastList.IsZero() {
		s.leftOut = nil // a list has brought them
	}
	if len(s.leftOut) == 0 || o.Kind != level && o.Kind != behind {
		return o
	}
	if s.guards.noLookups || !entry.ComparableRV(s.cur.RV) {
		return s.listFor(ReasonLeftOut)
	}
	klog.FromContext(ctx).Info("Getting objects again that were left out", "objects", len(s.leftOut))
	for len(s.leftOut) > 0 {
		held := s.leftOut[0]
		obj, got, err := s.fetch(ctx, held.Key)
		switch {
		case ctx.Err() != nil:
			return outcome{Kind: stop}
		case isDenied(err), apierrors.IsBadRequest(err), errors.Is(err, errOthers):
			klog.FromContext(ctx).Info("An object that was left out cannot be looked up; listing", "key", held.Key, "err", err)
			return s.listFor(ReasonLeftOut)
		case err != nil && request.Cut(err) && s.cutLookups == maxCutLookups:
			// The object is too large for this link. It stays recorded for the next start; the others go on.
			klog.FromContext(ctx).Info("An object that was left out does not come over the link; going on without it", "key",
				held.Key, "err", err)
			s.leftOut, s.cutLookups = s.leftOut[1:], 0
			continue
		case err != nil:
			if request.Cut(err) {
				s.cutLookups++
			}
			return s.lose(ctx, s.describe("look up "+held.Key+" of", err))
		}
		s.cutLookups = 0
		switch history.Check(held, s.cur.RV, got, obj != nil) {
		case history.Contradicts:
			klog.FromContext(ctx).Info("An object that was left out is another one at the server: "+rewound, "key", held.Key,
				"leftOut", held.ResourceVersion, "server", got.ResourceVersion, "resourceVersion", s.cur.RV)
			return s.listFor(ReasonRewound)
		case history.Agrees:
			if err := s.deliverAgain(ctx, obj); err != nil {
				return s.sinkClosed(err)
			}
		case history.Changed:
		}
		s.leftOut = s.leftOut[1:]
	}
	return o
}

// maxCutLookups is how often the look-up of an object that was left out is repeated after its answer was cut off.
const maxCutLookups = 2

// deliverAgain delivers an object without moving the stream, which has passed its resourceVersion.
func (s *session) deliverAgain(ctx context.Context, obj runtime.Object) error {
	ev := watch.Event{Type: watch.Modified, Object: obj}
	if s.gate.LeaveOut(ctx, obj) {
		return nil
	}
	if _, ok := s.gate.Check(ctx, ev); !ok {
		return nil
	}
	return s.sink.Event(ctx, ev.Type, obj, "")
}

// errOthers is the error if the field selector of a look-up was overwritten or ignored.
var errOthers = errors.New("the server sent other objects than the one that was asked for")

// fetch reads one object from the server; obj is nil if the server does not have it.
func (s *session) fetch(ctx context.Context, key string) (obj runtime.Object, ref entry.ObjectRef, err error) {
	s.r.board.update(func(st *Status) { st.Lookups++; st.Probes++ })
	o := metav1.ListOptions{Limit: 1, FieldSelector: keySelector(key)}
	list, _, err := s.lw.List(ctx, s.patience.Time(), o, s.tells(ctx, "look up "+key+" of"))
	if err != nil {
		return nil, ref, err
	}
	s.heard()
	err = meta.EachListItem(list, func(item runtime.Object) error {
		got, err := gate.Identify(item)
		if err != nil || got.Key != key {
			return errOthers
		}
		obj, ref = item, got
		return nil
	})
	return obj, ref, err
}
