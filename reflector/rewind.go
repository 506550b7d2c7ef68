package reflector

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector/internal/gate"
	"github.com/larder-dev/larder/reflector/internal/history"
)

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
			v.at = history.Max(v.at, got.at)
		}
		if got.obj != nil && !g.ours(got.obj) {
			got = answer{at: got.at} // the object now has a UID of another shard, so this shard's object was deleted
		}
		switch history.Check(held, g.s.cur.RV, got.ref, got.obj != nil) {
		case history.Contradicts:
			klog.FromContext(ctx).Info("An object that we hold is another one at the server: "+rewound, "key", held.Key,
				"held", held.ResourceVersion, "server", got.ref.ResourceVersion, "resourceVersion", g.s.cur.RV)
			return verdict{rewound: true}, nil
		case history.Changed:
			v.awaited[held.Key] = Difference{Held: held, Listed: got.ref}
			if entry.ComparableRV(got.ref.ResourceVersion) {
				v.at = history.Max(v.at, got.ref.ResourceVersion)
			}
		case history.Agrees:
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
		if ref, err := gate.Identify(obj); err == nil && ref.Key == key {
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
