package reflector

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector/internal/gate"
	"github.com/larder-dev/larder/reflector/internal/history"
	"github.com/larder-dev/larder/reflector/internal/request"
)

// maxCutLookups is how often the look-up of an object that was left out is repeated after its answer was cut off.
const maxCutLookups = 2

// fetchLeftOut delivers the objects of Checkpoint.LeftOut again, while a watch is open that has come as far as the
// server was when it was accepted: whoever was told of the sink's contents, by an earlier process too, was told of no
// later state, and did not learn of these objects. It skips objects that have changed or were deleted since: the watch
// brings their events, or has brought them. It asks for a list if look-ups are refused or impossible, if the watch
// cannot show how far it has come, or if the server was rewound. The outcome is empty if nothing is left to deliver.
func (s *session) fetchLeftOut(ctx context.Context) outcome {
	if !s.lists.ended.IsZero() {
		s.leftOut = nil // a list has brought them
	}
	if len(s.leftOut) == 0 {
		return outcome{}
	}
	if !s.cur.Reached(s.guards.target) {
		return s.listFor(ReasonLeftOut)
	}
	if s.untold {
		if err := s.tellPlace(ctx); err != nil {
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
		case errors.Is(err, errTooLong), s.cuts == maxCutLookups && request.Cut(err):
			// The sink's Checkpoint still has it at the next start; the others go on.
			s.cuts = 0
			klog.FromContext(ctx).Info("An object that was left out does not come over the link; going on without it", "key",
				held.Key, "err", err)
			continue
		case err != nil:
			if request.Cut(err) {
				s.cuts++
			}
			return s.lose(ctx, err)
		}
		s.cuts = 0
		switch history.Check(held, s.cur.RV, got.ref, got.obj != nil) {
		case history.Contradicts:
			klog.FromContext(ctx).Info("An object that was left out is another one at the server: "+rewound, "key", held.Key,
				"leftOut", held.ResourceVersion, "server", got.ref.ResourceVersion, "resourceVersion", s.cur.RV)
			return s.listFor(ReasonRewound)
		case history.Agrees:
			if err := s.deliverAgain(ctx, got.obj); err != nil {
				return s.sinkClosed(err)
			}
		case history.Changed:
		}
	}
	st, now := s.watching.stream, s.o.Clock.Now()
	st.heard = now // nothing was read meanwhile
	st.slow = st.slow || !now.Before(st.begun.Add(st.timeout))
	s.healthy() // a look-up may have been overdue
	return outcome{}
}

// forgetLeftOut notes that the watch brings what has become of an object.
func (s *session) forgetLeftOut(obj runtime.Object) {
	if len(s.leftOut) == 0 {
		return
	}
	if ref, err := gate.Identify(obj); err == nil {
		s.leftOut = slices.DeleteFunc(slices.Clone(s.leftOut), func(l entry.ObjectRef) bool { return l.Key == ref.Key })
	}
}

// deliverAgain delivers an object without advancing the resourceVersion, which has passed the object's.
func (s *session) deliverAgain(ctx context.Context, obj runtime.Object) error {
	if s.gate.LeaveOut(ctx, obj) {
		return nil
	}
	if _, ok := s.gate.Check(ctx, watch.Event{Type: watch.Modified, Object: obj}); !ok {
		return nil
	}
	return s.sink.Event(ctx, watch.Modified, obj, "")
}
