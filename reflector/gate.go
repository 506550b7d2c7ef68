package reflector

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
)

// gate decides which of the server's objects are delivered to the sink: by Go type, scope (Admit) and shard. It counts
// the objects that it drops. An object of the wrong type or scope is a stray: from the first stray to the end of a list
// without strays there is no resourceVersion to resume from (Resumable). An object of another shard is no stray: its
// server sends every shard. A list with nothing but strays is a list of another collection (Judge).
type gate struct {
	o gateOptions
	dropCount
	dropped dropped
	// astray is true if the server sent a stray (an object that was not requested) since the last list without strays.
	// A stray by its Go type alone does not set astray.
	astray bool
	// skippedCount counts the objects that were dropped since skippedSince, to bound log messages per hour.
	skippedSince time.Time
	skippedCount int
}

// gateOptions are the options of newGate.
type gateOptions struct {
	// ExpectedType, Admit and Shard have the meaning of the same fields in reflector.Options.
	ExpectedType runtime.Object
	Admit        func(runtime.Object) error
	Shard        sharding.Selector
	OnDrop       func(dropped)
	Clock        clock.PassiveClock
}

// dropped describes the objects that were not delivered, in the fields of reflector.Status of the same names.
type dropped struct {
	Skipped   int
	Stray     error
	Unsharded string
}

func newGate(o gateOptions) *gate { return &gate{o: o} }

func (g *gate) update(change func(*dropped)) {
	change(&g.dropped)
	g.o.OnDrop(g.dropped)
}

// dropCount counts the dropped objects, for example of one list.
type dropCount struct {
	Strays  int
	foreign foreigners
}

// Since returns how many objects were dropped since the earlier count then.
func (p dropCount) Since(then dropCount) dropCount {
	return dropCount{p.Strays - then.Strays, p.foreign.since(then.foreign)}
}

// Judge is called at the end of a list. by counts the list's dropped objects; delivered is true if the list had other
// objects. It returns an error if the list looks like a list of another collection, which must not replace the stored
// objects.
func (g *gate) Judge(by dropCount, delivered bool) error {
	switch {
	case by.Strays > 0 && !delivered:
		return fmt.Errorf("%w (all %d objects of the list): %w", ErrStrays, by.Strays, g.dropped.Stray)
	case !delivered && g.isOtherShard(by.foreign):
		return g.errAnotherShard(by.foreign)
	case by.Strays == 0:
		g.astray = false
		g.update(func(s *dropped) { s.Stray = nil })
	}
	if by.foreign.sent == 0 {
		g.setUnsharded("")
	}
	return nil
}

// Check returns the reference to an event's object, and whether the event can be delivered. Other events are logged and
// counted, and their resourceVersions are not stored.
func (g *gate) Check(ctx context.Context, ev watch.Event) (entry.ObjectRef, bool) {
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

// Skip logs and counts an object that is dropped; err is the reason.
func (g *gate) Skip(ctx context.Context, ref entry.ObjectRef, err error) {
	g.logSkipped(ctx, ref, err)
	var st stray
	isStray := errors.As(err, &st)
	if isStray {
		g.Strays++
		g.astray = g.astray || !st.goType
	}
	g.update(func(s *dropped) {
		s.Skipped++
		if isStray {
			s.Stray = err
		}
	})
}

// skippedLogged is how many skipped objects are logged as errors per hour: often all objects have the wrong type.
const skippedLogged = 10

func (g *gate) logSkipped(ctx context.Context, ref entry.ObjectRef, err error) {
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

// stray is the error for an object that was not requested: of another type or scope.
type stray struct {
	error
	// goType is true if the object has another Go type than expected. That does not prevent a resume: a program
	// that expects another Go type does not resume from the objects that this program has stored.
	goType bool
}

func (e stray) Unwrap() error { return e.error }

// Is makes errors.Is(err, ErrStrays) true for the error of a single stray, as it is for the error of a list.
func (e stray) Is(target error) bool { return target == ErrStrays }

// Admit returns an error of type stray if Options.Admit refuses the object.
func (g *gate) Admit(ref entry.ObjectRef, obj runtime.Object) error {
	if g.o.Admit == nil {
		return nil
	}
	if err := g.o.Admit(obj); err != nil {
		return stray{error: fmt.Errorf("object %s: %w", ref.Key, err)}
	}
	return nil
}

// Resumable returns the resourceVersion to pass to the Sink: rv, or "" while astray is true. Without a resourceVersion
// the Sink cannot resume, because objects of its collection may be missing.
func (g *gate) Resumable(rv string) string {
	if g.astray {
		return ""
	}
	return rv
}

// RefOf returns the reference (key, UID, resourceVersion) of an object. If the object does not have the expected type,
// RefOf returns an error, and the known fields of the reference.
func (g *gate) RefOf(obj runtime.Object) (entry.ObjectRef, error) {
	ref, err := identify(obj)
	if err != nil {
		return ref, err
	}
	if err := checkType(g.o.ExpectedType, obj); err != nil {
		return ref, fmt.Errorf("object %s: %w", ref.Key, err)
	}
	return ref, nil
}

// identify returns the reference (key, UID, resourceVersion) of an object of any type.
func identify(obj runtime.Object) (entry.ObjectRef, error) {
	acc, err := meta.Accessor(obj)
	if err != nil {
		return entry.ObjectRef{}, fmt.Errorf("object has no meta: it is %s", typeName(obj))
	}
	return entry.RefOf(acc), nil
}

// checkType returns an error if the object got has another type than the example want. If want is nil, every type but
// Table is allowed, as in client-go.
func checkType(want, got runtime.Object) error {
	gvk := got.GetObjectKind().GroupVersionKind()
	if gvk.Kind == "Table" && gvk.Group == metav1.GroupName {
		return errors.New("the server sent a Table; ask it for objects")
	}
	if want == nil {
		return nil
	}
	if u, ok := got.(*entry.Undecoded); ok && u.OtherKind() {
		return stray{fmt.Errorf("the server sent a %s where the example object is %s", gvk.Kind, typeName(want)), true}
	}
	if reflect.TypeOf(want) != typeOf(got) {
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

func typeOf(obj runtime.Object) reflect.Type {
	if u, ok := obj.(*entry.Undecoded); ok {
		return u.Type()
	}
	return reflect.TypeOf(obj)
}

func typeName(obj runtime.Object) string { return fmt.Sprint(typeOf(obj)) }

const shardIgnored = "the server, or the ListerWatcher, does not heed the shard selector " +
	"(feature gate ShardedListAndWatch, off by default): " +
	"what comes of other shards is left out here; if everything comes, the contents are right and only the traffic is " +
	"that of the whole"

// foreigners counts the objects of other shards that the server sent. A server that does not know the selector, or
// whose feature gate is off, ignores it and sends every shard. A missing metav1.ShardInfo does not show that: watches,
// and lists of custom resources and of metadata, never have it. So the reflector checks the shard of each object.
type foreigners struct {
	// sent counts all objects of other shards. distinct counts only items of lists, and an item with the UID of the
	// previous item (last) only once: events may be about a few objects only.
	sent, distinct int
	last           types.UID
}

// LeaveOut reports whether obj is of another shard, and counts it if so. The object is not a stray: it shows that the
// server sends every shard, not that objects may be missing. An object keeps its UID and namespace, and so its shard.
// It was never delivered before, so its DELETED event is dropped too.
func (g *gate) LeaveOut(ctx context.Context, obj runtime.Object) bool {
	// An object whose shard is unknown is kept; RefOf refuses it if it has no metadata.
	if ours, err := g.o.Shard.Matches(obj); ours || err != nil {
		return false
	}
	g.foreign.sent++
	if g.dropped.Unsharded == "" {
		klog.FromContext(ctx).Info("Objects of other shards come too: "+shardIgnored, "shard", g.o.Shard.String())
		g.setUnsharded(shardIgnored)
	}
	return true
}

// LeaveOutItem does for an item of a list what LeaveOut does for an event's object.
func (g *gate) LeaveOutItem(ctx context.Context, obj runtime.Object) bool {
	if !g.LeaveOut(ctx, obj) {
		return false
	}
	if acc, err := meta.Accessor(obj); err == nil && acc.GetUID() != g.foreign.last {
		g.foreign.distinct++
		g.foreign.last = acc.GetUID()
	}
	return true
}

func (g *gate) setUnsharded(why string) { g.update(func(s *dropped) { s.Unsharded = why }) }

// chanceOfNone is the natural logarithm of a probability, about 1e-13. If a list of all shards would lack objects of
// this shard with a smaller probability, a list without them is of another shard.
const chanceOfNone = -30

// isOtherShard reports whether a list that has only objects of other shards was requested for another shard. Its
// objects must not replace the stored ones. A list of all shards would contain some objects of this shard. The answer
// is known only for selectors by UID, whose hashes are spread evenly.
func (g *gate) isOtherShard(sent foreigners) bool {
	return float64(sent.distinct)*math.Log1p(-shareOfUIDs(g.o.Shard)) < chanceOfNone
}

func shareOfUIDs(s sharding.Selector) (share float64) {
	for _, r := range s.Requirements() {
		start, err := hashFraction(r.Start)
		end, err2 := hashFraction(r.End)
		if r.Key != "object.metadata.uid" || err != nil || err2 != nil {
			return 0
		}
		share += end - start
	}
	return min(share, 1)
}

func hashFraction(hash string) (float64, error) {
	if hash == "0x10000000000000000" {
		return 1, nil
	}
	n, err := strconv.ParseUint(hash, 0, 64)
	return float64(n) / math.MaxUint64, err
}

func (g *gate) errAnotherShard(sent foreigners) error {
	return fmt.Errorf(
		"%w: all %d objects of the list are of other shards than %s; make the ListerWatcher's requests with that selector",
		ErrStrays, sent.sent, g.o.Shard)
}

func (f foreigners) since(then foreigners) foreigners {
	return foreigners{sent: f.sent - then.sent, distinct: f.distinct - then.distinct}
}
