package gate

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
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
)

// errStrays is reflector.ErrStrays.
var ErrStrays = errors.New("something else is listed than was asked for")

// Gate decides what of the server's objects is delivered: those of the type, the scope and the shard that were asked
// for. It counts the others.
type Gate struct {
	o Options
	PassedBy
	said Said
	// astray: since the last list without strays there was one for another reason than its Go type.
	astray bool
	// skippedCount counts what was skipped since skippedSince, for the log.
	skippedSince time.Time
	skippedCount int
}

// Options are what is asked for.
type Options struct {
	// ExpectedType, Admit and Shard are those of reflector.Options.
	ExpectedType runtime.Object
	Admit        func(runtime.Object) error
	Shard        sharding.Selector
	// Say is called with what is to be said when it has changed.
	Say   func(Said)
	Clock clock.PassiveClock
}

// Said is what users are told of the objects that were not delivered: the fields of reflector.Status of that name.
type Said struct {
	Skipped   int
	Stray     error
	Unsharded string
}

// New returns a gate that has passed nothing by.
func New(o Options) *Gate { return &Gate{o: o} }

// say says what has changed.
func (g *Gate) say(change func(*Said)) {
	change(&g.said)
	g.o.Say(g.said)
}

// PassedBy are the objects that were not delivered.
type PassedBy struct {
	// strays are none of those that are asked for.
	Strays int
	// foreign are of other shards.
	foreign foreigners
}

// Since is what came after then.
func (p PassedBy) Since(then PassedBy) PassedBy {
	return PassedBy{p.Strays - then.Strays, p.foreign.since(then.foreign)}
}

// Judge says why a list that passed these by, and delivered others or none, is a list of something else and says
// nothing about what is held; nil if it is not.
func (g *Gate) Judge(by PassedBy, delivered bool) error {
	switch {
	case by.Strays > 0 && !delivered:
		return fmt.Errorf("%w (all %d objects of the list): %w", ErrStrays, by.Strays, g.said.Stray)
	case !delivered && g.asksForAnother(by.foreign):
		return g.errAnotherShard(by.foreign)
	case by.Strays == 0:
		g.astray = false
		g.say(func(s *Said) { s.Stray = nil })
	}
	if by.foreign.sent == 0 {
		g.setUnsharded("")
	}
	return nil
}

// Check reports whether an event can be delivered, and what it is about. One that cannot is
// logged and counted; it never moves the stream on.
func (g *Gate) Check(ctx context.Context, ev watch.Event) (entry.ObjectRef, bool) {
	ref, err := g.RefOf(ev.Object)
	if err == nil && ev.Type != watch.Deleted {
		err = g.Admit(ref, ev.Object)
	}
	if err == nil && ev.Type != watch.Added && ev.Type != watch.Modified && ev.Type != watch.Deleted {
		err = fmt.Errorf("unknown event type %q", ev.Type)
	}
	if err != nil {
		g.Skip(ctx, ref, err)
		return ref, false
	}
	if !entry.ComparableRV(ref.ResourceVersion) {
		klog.FromContext(ctx).V(2).Info("An event's resourceVersion cannot be compared: it does not move the stream on",
			"key", ref.Key, "resourceVersion", ref.ResourceVersion)
	}
	return ref, true
}

// Skip notes an object that is not delivered.
func (g *Gate) Skip(ctx context.Context, ref entry.ObjectRef, err error) {
	g.logSkipped(ctx, ref, err)
	var st stray
	isStray := errors.As(err, &st)
	if isStray {
		g.Strays++
		g.astray = g.astray || !st.goType
	}
	g.say(func(s *Said) {
		s.Skipped++
		if isStray {
			s.Stray = err
		}
	})
}

// skippedLogged is how many skipped objects are logged an hour. Where one is of the wrong type all are.
const skippedLogged = 10

func (g *Gate) logSkipped(ctx context.Context, ref entry.ObjectRef, err error) {
	logger, now := klog.FromContext(ctx), g.o.Clock.Now()
	if now.Sub(g.skippedSince) >= time.Hour {
		g.skippedSince, g.skippedCount = now, 0
	}
	switch g.skippedCount++; {
	case g.skippedCount < skippedLogged:
		logger.Error(err, "Skipped an object", "key", ref.Key)
	case g.skippedCount == skippedLogged:
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

// Admit asks Options.Admit.
func (g *Gate) Admit(ref entry.ObjectRef, obj runtime.Object) error {
	if g.o.Admit == nil {
		return nil
	}
	if err := g.o.Admit(obj); err != nil {
		return stray{error: fmt.Errorf("object %s: %w", ref.Key, err)}
	}
	return nil
}

// Resumable is the resourceVersion that the sink may resume from: none while astray, since what should be there may be
// missing.
func (g *Gate) Resumable(rv string) string {
	if g.astray {
		return ""
	}
	return rv
}

// RefOf identifies an object, and checks that it is what we watch. The
// reference is as complete as it can be even with an error.
func (g *Gate) RefOf(obj runtime.Object) (entry.ObjectRef, error) {
	ref, err := Identify(obj)
	if err != nil {
		return ref, err
	}
	if err := checkType(g.o.ExpectedType, obj); err != nil {
		return ref, fmt.Errorf("object %s: %w", ref.Key, err)
	}
	return ref, nil
}

// Identify identifies an object of any type.
func Identify(obj runtime.Object) (entry.ObjectRef, error) {
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
