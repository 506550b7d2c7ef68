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

// leftOut looks up the objects that Checkpoint.LeftOut names.
type leftOut struct {
	s *session
	// refs lists the objects that have not been looked up yet.
	refs []entry.ObjectRef
	// cut counts how often in a row the answer about refs[0] was cut off.
	cut int
}

// fetchAll delivers the objects of Checkpoint.LeftOut again, after Verify has ended with o and before the watch. It
// skips objects that have changed or were deleted since: the watch brings their events. It requests a list if the
// server refuses look-ups or the ListerWatcher cannot make them.
func (l *leftOut) fetchAll(ctx context.Context, o outcome) outcome {
	s := l.s
	if !s.lists.ended.IsZero() {
		l.refs = nil // a list has brought them
	}
	if len(l.refs) == 0 || o.Kind != level && o.Kind != behind {
		return o
	}
	if s.guards.noLookups || !entry.ComparableRV(s.cur.RV) {
		return s.listFor(ReasonLeftOut)
	}
	klog.FromContext(ctx).Info("Getting objects again that were left out", "objects", len(l.refs))
	for len(l.refs) > 0 {
		held := l.refs[0]
		obj, got, err := l.fetch(ctx, held.Key)
		switch {
		case ctx.Err() != nil:
			return outcome{Kind: stop}
		case isDenied(err), apierrors.IsBadRequest(err), errors.Is(err, errOthers):
			klog.FromContext(ctx).Info("An object that was left out cannot be looked up; listing", "key", held.Key, "err", err)
			return s.listFor(ReasonLeftOut)
		case err != nil && request.Cut(err) && l.cut == maxCutLookups:
			// The object is too large for this link. It stays recorded for the next start; the others go on.
			klog.FromContext(ctx).Info("An object that was left out does not come over the link; going on without it", "key",
				held.Key, "err", err)
			l.refs, l.cut = l.refs[1:], 0
			continue
		case err != nil:
			if request.Cut(err) {
				l.cut++
			}
			return s.lose(ctx, s.conn.describe("look up "+held.Key+" of", err))
		}
		l.cut = 0
		switch history.Check(held, s.cur.RV, got, obj != nil) {
		case history.Contradicts:
			klog.FromContext(ctx).Info("An object that was left out is another one at the server: "+rewound, "key", held.Key,
				"leftOut", held.ResourceVersion, "server", got.ResourceVersion, "resourceVersion", s.cur.RV)
			return s.listFor(ReasonRewound)
		case history.Agrees:
			if err := l.deliverAgain(ctx, obj); err != nil {
				return s.sinkClosed(err)
			}
		case history.Changed:
		}
		l.refs = l.refs[1:]
	}
	return o
}

// maxCutLookups is how often the look-up of an object that was left out is repeated after its answer was cut off.
const maxCutLookups = 2

// deliverAgain delivers an object without moving the stream, which has passed its resourceVersion.
func (l *leftOut) deliverAgain(ctx context.Context, obj runtime.Object) error {
	ev := watch.Event{Type: watch.Modified, Object: obj}
	if l.s.gate.LeaveOut(ctx, obj) {
		return nil
	}
	if _, ok := l.s.gate.Check(ctx, ev); !ok {
		return nil
	}
	return l.s.sink.Event(ctx, ev.Type, obj, "")
}

// errOthers is the error if the field selector of a look-up was overwritten or ignored.
var errOthers = errors.New("the server sent other objects than the one that was asked for")

// fetch reads one object from the server; obj is nil if the server does not have it.
func (l *leftOut) fetch(ctx context.Context, key string) (obj runtime.Object, ref entry.ObjectRef, err error) {
	l.s.r.board.update(func(st *Status) { st.Lookups++; st.Probes++ })
	o := metav1.ListOptions{Limit: 1, FieldSelector: keySelector(key)}
	list, _, err := l.s.conn.lw.List(ctx, l.s.lists.patience.Time(), o, l.s.conn.tells(ctx, "look up "+key+" of"))
	if err != nil {
		return nil, ref, err
	}
	l.s.conn.heard()
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
