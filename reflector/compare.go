package reflector

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// Comparison is the result of Options.Compare.
type Comparison struct {
	// ResourceVersion is the resourceVersion of the list of metadata that Options.Compare has compared with the Sink.
	ResourceVersion string
	// Differences lists the objects that only the Sink or only the server has, or whose UID or resourceVersion differs.
	Differences []Difference
}

// Difference is an object that differs between Sink and server. The reference of a side without the object is zero.
type Difference struct {
	Held, Listed entry.ObjectRef
}

func (d Difference) key() string {
	if d.Held.Key != "" {
		return d.Held.Key
	}
	return d.Listed.Key
}

// explainedBy reports whether an event of this type and object delivers the state Listed, or a later state.
func (d Difference) explainedBy(t watch.EventType, ref entry.ObjectRef) bool {
	if d.Listed.Key == "" {
		return t == watch.Deleted
	}
	return !entry.ComparableRV(ref.ResourceVersion) || !below(ref.ResourceVersion, d.Listed.ResourceVersion)
}

type awaited map[string]Difference

func (a awaited) explain(t watch.EventType, ref entry.ObjectRef) {
	d, ok := a[ref.Key]
	switch {
	case !ok:
	case d.explainedBy(t, ref):
		delete(a, ref.Key)
	case t == watch.Deleted: // the key has no stored object any more, and may await an event for a new one
		d.Held = entry.ObjectRef{}
		a[ref.Key] = d
	}
}

// ErrIncomparable is returned by Options.Compare if the objects of Sink and server cannot be compared in this run.
var ErrIncomparable = errors.New("what is held cannot be compared with what the server has")

// explainTime is how long a watch may be silent while an event for a difference found by Options.Compare has not
// arrived. After that the reflector opens a watch with a three-second time-out; the bookmark at the end of that watch
// shows whether the event will arrive.
const explainTime = 10 * time.Second

// compares reports whether Options.Compare is called once the server has accepted the next watch, to detect a server
// that was restored from a backup. After a watch that ended at its own time-out, looking up one object suffices. A seed
// is not compared: it saves a full list, and the comparison would be a list itself.
func (g *guards) compares(ctx context.Context) bool {
	if !g.s.served && !g.s.seeding.taken.IsZero() {
		return false
	}
	if g.s.o.Compare == nil || g.incomparable || g.s.watching.end != lost || !g.s.cur.Comparable() || g.s.gate.Strays > 0 {
		return false
	}
	return g.s.o.ComparisonPays == nil || g.s.o.ComparisonPays(ctx, g.s.resumes != "" && g.s.lists.ended.IsZero())
}

// compare calls Options.Compare once the watch has been accepted, in place of the probe (a list with limit=1) and the
// look-ups of single objects. The answer comes from the server that accepted the watch, or from a successor, which
// breaks the watch. The watch must then deliver an event for every difference. done is false if the objects cannot be
// compared; the caller then makes the look-ups.
func (g *guards) compare(ctx context.Context) (done bool, o outcome) {
	g.comparing = false
	c, err := g.askCompare(ctx)
	switch {
	case ctx.Err() != nil:
		return false, outcome{Kind: stop}
	case err == nil && !entry.ComparableRV(c.ResourceVersion), errors.Is(err, ErrIncomparable),
		refusesMetadata(err):
		klog.FromContext(ctx).V(2).Info("What is held is not compared with the server; looking up the newest objects", "err",
			err)
		g.incomparable = true
		return false, g.probeInstead(ctx)
	case err != nil:
		return false, g.s.lose(ctx, g.s.conn.describe("compare", err))
	case below(c.ResourceVersion, g.s.cur.RV):
		return false, g.ahead(ctx, c.ResourceVersion)
	}
	g.s.conn.received()
	g.awaited = awaited{}
	for _, d := range c.Differences {
		switch checkHeld(d.Held, g.s.cur.RV, d.Listed, d.Listed.Key != "") {
		case contradicts:
			klog.FromContext(ctx).Info("An object is another one at the server than the one that we hold: "+rewound, "key",
				d.key(), "held", d.Held.ResourceVersion, "server", d.Listed.ResourceVersion, "resourceVersion", g.s.cur.RV)
			return false, g.s.listFor(ReasonRewound)
		case changed:
			g.awaited[d.key()] = d
		case agrees:
		}
	}
	if len(g.awaited) > 0 {
		g.target, g.exact = c.ResourceVersion, true
		return true, outcome{}
	}
	g.target = ""
	g.s.conn.contact(g.s.o.Clock.Now())
	g.s.holds(g.s.watching.stream)
	return true, outcome{}
}

// compareTime bounds a call of Options.Compare, counted from when its request was sent: a wait for the client's rate
// limiter does not count. Listing the metadata may take minutes over a slow link, but waiting for the bookmark of a
// short watch takes only a second.
const compareTime = 10 * time.Second

func (g *guards) askCompare(ctx context.Context) (Comparison, error) {
	g.s.r.board.update(func(st *Status) { st.Comparisons++ })
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	sent := time.AfterFunc(requestTimeout, cancel)
	defer sent.Stop()
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { sent.Reset(compareTime) },
	})
	awaited, ended := awaitAnswer(traced, g.s.conn)
	defer ended()
	c, err := g.comparer.Call(ctx, awaited, g.s.o.Compare)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: its metadata take too long to come: %w", ErrIncomparable, err)
	}
	return c, err
}

// probeInstead requests the server's resourceVersion (a list with limit=1) because Options.Compare has failed after its
// watch was opened. If the server is newer, that watch is replaced by a watch with a three-second time-out.
func (g *guards) probeInstead(ctx context.Context) outcome {
	rv, err := g.probe(ctx)
	if err != nil {
		return g.s.lose(ctx, err)
	}
	switch o := g.judge(ctx, rv); o.Kind {
	case level:
		g.target = ""
		if g.even {
			g.s.holds(g.s.watching.stream)
		}
		return outcome{}
	case behind:
		g.s.closeStream()
		return o
	default:
		return o
	}
}

// recheck opens a watch with a three-second time-out in place of the current one, and looks up the newest stored
// objects. The bookmark of the new watch shows whether the awaited events were missed.
func (g *guards) recheck(ctx context.Context) outcome {
	klog.FromContext(ctx).V(2).Info("An object that has changed at the server has not come; looking it up", "objects",
		len(g.awaited))
	g.exact, g.pending = false, true
	g.s.closeStream()
	return outcome{Kind: behind}
}

// caughtUp reports whether the awaited events have arrived and the watch has reached the probed resourceVersion. If
// Options.Compare has listed every difference, the events alone suffice.
func (g *guards) caughtUp() bool {
	return len(g.awaited) == 0 && (g.exact || g.s.cur.Reached(g.target))
}

const rewound = "it was rewound, or what is listed is of another namespace or selector than what is held"

type verdict struct {
	rewound bool
	// awaited has the objects that the server has changed since the stored state: an event must deliver each change.
	awaited awaited
	// at is the highest resourceVersion in the answers to the look-ups; "" if none of them could be compared.
	at string
}

// lookUp compares n of the newest stored objects with the server's. That detects a server that was restored from a
// backup and whose resourceVersion is above the stored one again.
func (g *guards) lookUp(ctx context.Context, n int) (verdict, error) {
	v := verdict{awaited: awaited{}}
	for _, held := range g.toLookUp(n) {
		got, err := g.lookUpOne(ctx, held.Key, false)
		if errors.Is(err, errTooLong) {
			g.giveUpLookups(ctx, "an object is too large for the link, and there is no ListMetadata")
		}
		if g.noLookups {
			return verdict{}, nil
		}
		if err != nil {
			return verdict{}, err
		}
		if entry.ComparableRV(got.at) {
			v.at = maxRV(v.at, got.at)
		}
		if got.obj != nil && !g.ours(got.obj) {
			got = answer{at: got.at} // the object now has a UID of another shard, so this shard's object was deleted
		}
		switch checkHeld(held, g.s.cur.RV, got.ref, got.obj != nil) {
		case contradicts:
			klog.FromContext(ctx).Info("An object that we hold is another one at the server: "+rewound, "key", held.Key,
				"held", held.ResourceVersion, "server", got.ref.ResourceVersion, "resourceVersion", g.s.cur.RV)
			return verdict{rewound: true}, nil
		case changed:
			v.awaited[held.Key] = Difference{Held: held, Listed: got.ref}
			if entry.ComparableRV(got.ref.ResourceVersion) {
				v.at = maxRV(v.at, got.ref.ResourceVersion)
			}
		case agrees:
		}
	}
	return v, nil
}

func (g *guards) ours(obj runtime.Object) bool {
	ours, err := g.s.o.Shard.Matches(obj)
	return ours || err != nil
}

// toLookUp returns up to n stored objects to compare with the server's. Objects whose event was awaited when the last
// connection was lost precede the newest objects: events of a restored server may have displaced them from the newest
// objects.
func (g *guards) toLookUp(n int) []entry.ObjectRef {
	var refs []entry.ObjectRef
	for _, d := range g.awaited {
		if d.Held.Key != "" {
			refs = append(refs, d.Held)
		}
	}
	for _, ref := range g.s.newest.Refs {
		if _, ok := g.awaited[ref.Key]; !ok {
			refs = append(refs, ref)
		}
	}
	return refs[:min(n, len(refs))]
}

// errNoLookups: the ListerWatcher, or the server, refuses or ignores the field selector on an object's name.
var errNoLookups = errors.New("objects cannot be looked up one by one")

// answer is the answer to a request for one object. obj is nil if the server does not have the object. at is the
// server's resourceVersion.
type answer struct {
	obj runtime.Object
	ref entry.ObjectRef
	at  string
}

// lookUpOne requests one whole object, or only its metadata if whole is false and the server supports that. The error
// wraps errTooLong if the object is too large for the link.
func (g *guards) lookUpOne(ctx context.Context, key string, whole bool) (answer, error) {
	if g.noLookups {
		return answer{}, errNoLookups
	}
	what := "look up " + key + " of"
	g.s.r.board.update(func(st *Status) { st.Lookups++; st.Probes++ })
	list, m, err := g.listOne(ctx, metav1.ListOptions{Limit: 1, FieldSelector: keySelector(key)}, what, whole)
	if apierrors.IsBadRequest(err) {
		g.giveUpLookups(ctx, "the server does not take the field selector")
		return answer{}, errNoLookups
	}
	if err != nil {
		return answer{}, g.s.conn.describe(what, err)
	}
	g.s.answered(m.GetResourceVersion())
	got, others := answer{at: m.GetResourceVersion()}, false
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		if ref, err := identify(obj); err == nil && ref.Key == key {
			got.obj, got.ref = obj, ref
		} else {
			others = true
		}
		return nil
	})
	// The answer has only other objects, so the field selector had no effect. An empty answer means that the object
	// does not exist.
	if others && got.obj == nil {
		g.giveUpLookups(ctx, "the field selector of the requests is overwritten on the way, or the server ignores it")
		return answer{}, errNoLookups
	}
	return got, err
}

// giveUpLookups turns off the rewind check for this run, because single objects cannot be requested.
func (g *guards) giveUpLookups(ctx context.Context, why string) {
	g.noLookups = true
	g.s.r.board.update(func(st *Status) { st.NoLookups = why })
	klog.FromContext(ctx).Info(
		"Objects cannot be looked up one by one: a server that was rewound and has overtaken us will not be noticed", "why",
		why)
}

func keySelector(key string) string {
	name, err := cache.ParseObjectName(key)
	if err != nil {
		return fields.OneTermEqualSelector("metadata.name", key).String()
	}
	selector := fields.OneTermEqualSelector("metadata.name", name.Name)
	if name.Namespace != "" {
		selector = fields.AndSelectors(selector, fields.OneTermEqualSelector("metadata.namespace", name.Namespace))
	}
	return selector.String()
}
