package reflector

import (
	"context"
	"errors"
	"maps"
	"slices"

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
	"github.com/larder-dev/larder/reflector/internal/pace"
)

// rewound is the end of log messages about a server with another history.
const rewound = "it was rewound, or what is listed is of another namespace or selector than what is held"

// awaited are objects, by key, that the server has changed since our state: an event about each must come.
type awaited map[string]entry.ObjectRef

// verdict is the result of all look-ups of a connect.
type verdict struct {
	rewound bool
	// awaited has the objects whose change an event must explain. by is the highest of their resourceVersions: the events
	// must come before the watch has passed it and the probe's.
	awaited awaited
	by      string
	// at is true if an answer had the server's resourceVersion and that was not below ours.
	at bool
}

// lookUp is the rewind check: it looks up n of the newest objects that we hold, to notice a server that was rewound and
// has overtaken us.
func (g *guards) lookUp(ctx context.Context, n int) (verdict, error) {
	v := verdict{awaited: awaited{}}
	for _, held := range g.toLookUp(n) {
		got, found, usable, at, err := g.lookUpOne(ctx, held.Key)
		if errors.Is(err, errTooLong) {
			if _, waits := g.awaited[held.Key]; waits {
				v.awaited[held.Key] = held // an event must still explain the earlier look-up
			}
			continue
		}
		if err != nil {
			return verdict{}, g.s.conn.describe("look up "+held.Key+" of", err)
		}
		if !usable {
			return verdict{}, nil
		}
		v.at = v.at || entry.ComparableRV(at) && !history.Below(at, g.s.cur.RV)
		switch history.Check(held, g.s.cur.RV, got, found) {
		case history.Contradicts:
			klog.FromContext(ctx).Info("An object that we hold is another one at the server: "+rewound, "key", held.Key,
				"held", held.ResourceVersion, "server", got.ResourceVersion, "resourceVersion", g.s.cur.RV)
			return verdict{rewound: true}, nil
		case history.Changed:
			v.awaited[held.Key] = held
			v.by = history.Max(v.by, got.ResourceVersion)
		case history.Agrees:
		}
	}
	return v, nil
}

// toLookUp returns up to n objects to look up: first those still awaited from the last connection, which events of
// another history may have pushed out of the newest; then the newest.
func (g *guards) toLookUp(n int) []entry.ObjectRef {
	refs := slices.Collect(maps.Values(g.awaited))
	for _, ref := range g.s.newest.Refs {
		if _, ok := g.awaited[ref.Key]; !ok {
			refs = append(refs, ref)
		}
	}
	return refs[:min(n, len(refs))]
}

// found is the result of Options.Lookup.
type found struct {
	ref entry.ObjectRef
	is  bool
}

// lookUpByHook calls Options.Lookup.
func (g *guards) lookUpByHook(ctx context.Context, key string) (entry.ObjectRef, bool, error) {
	g.s.r.board.update(func(st *Status) { st.Lookups++ })
	limited, cancel := context.WithTimeout(ctx, pace.RequestTimeout)
	defer cancel()
	f, err := g.finder.Call(ctx, limited, func(ctx context.Context) (f found, err error) {
		f.ref, f.is, err = g.s.o.Lookup(ctx, key)
		return f, err
	})
	if err == nil {
		g.s.conn.heard()
	}
	return f.ref, f.is, err
}

// lookUpOne reads the identity of one object. at is the server's resourceVersion, if the answer has it. usable is false
// if this ListerWatcher cannot look up objects. The error is errTooLong if the object is too large for the link.
func (g *guards) lookUpOne(
	ctx context.Context, key string,
) (ref entry.ObjectRef, found, usable bool, at string, err error) {
	if g.s.o.Lookup != nil {
		ref, found, err = g.lookUpByHook(ctx, key)
		return ref, found, true, "", err
	}
	if g.noLookups {
		return entry.ObjectRef{}, false, false, "", nil
	}
	if g.heavy[key] {
		return entry.ObjectRef{}, false, true, "", errTooLong
	}
	g.s.r.board.update(func(st *Status) { st.Lookups++; st.Probes++ })
	list, m, err := g.listOne(ctx, metav1.ListOptions{Limit: 1, FieldSelector: keySelector(key)}, "look up "+key+" of")
	if errors.Is(err, errTooLong) {
		klog.FromContext(ctx).Info(
			"An object is too large to be looked up over this link; the guard against a rewound server does without it", "key",
			key)
		g.heavy[key] = true
	}
	if apierrors.IsBadRequest(err) {
		g.giveUpLookups(ctx, "the server does not take the field selector")
		return entry.ObjectRef{}, false, false, "", nil
	}
	if err != nil {
		return entry.ObjectRef{}, false, false, "", err
	}
	g.s.conn.heard()
	ref, found, other, err := g.pick(list, key)
	if err == nil && !found && other {
		g.giveUpLookups(ctx, "the field selector of the requests is overwritten on the way, or the server ignores it")
		return entry.ObjectRef{}, false, false, "", nil
	}
	return ref, found, true, m.GetResourceVersion(), err
}

// giveUpLookups turns the rewind check off for this run.
func (g *guards) giveUpLookups(ctx context.Context, why string) {
	g.noLookups = true
	g.s.r.board.update(func(st *Status) { st.NoLookups = why })
	klog.FromContext(ctx).Info(
		"Objects cannot be looked up one by one: a server that was rewound and has overtaken us will not be noticed", "why",
		why)
}

// pick returns the object of that key in the answer, and whether there were others. An empty answer means not found,
// even if the selector was overwritten: then there are no objects at all.
func (g *guards) pick(list runtime.Object, key string) (ref entry.ObjectRef, found, other bool, err error) {
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		got, rerr := g.s.gate.RefOf(obj)
		if _, ok := obj.(*metav1.PartialObjectMetadata); ok { // a list by metadata, whatever the expected type is
			got, rerr = gate.Identify(obj)
		}
		if got.Key == key && rerr == nil {
			ref, found = got, true
		} else {
			other = true
		}
		return nil
	})
	return ref, found, other, err
}

// keySelector returns a field selector for the object with that key.
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
