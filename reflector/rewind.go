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

// rewound is what the look-ups show, as the log says it.
const rewound = "it was rewound, or what is listed is of another namespace or selector than what is held"

// awaited are objects, by key, that the server has changed since our state: an event about each must come.
type awaited map[string]entry.ObjectRef

// verdict is what all look-ups of a connect say.
type verdict struct {
	rewound bool
	// awaited are the objects whose change an event must explain, and by the resourceVersion by which it must have come
	// (the probe's counts too).
	awaited awaited
	by      string
	// at: an answer has said where the server stands, and that was not behind us.
	at bool
}

// lookUp is the guard against a rewound server that has overtaken us: it reads the newest
// objects that we hold, n of them.
func (g *guards) lookUp(ctx context.Context, n int) (verdict, error) {
	v := verdict{awaited: awaited{}}
	for _, held := range g.toLookUp(n) {
		got, found, usable, at, err := g.lookUpOne(ctx, held.Key)
		if errors.Is(err, errTooLong) {
			if _, waits := g.awaited[held.Key]; waits {
				v.awaited[held.Key] = held // what was seen of it has still to be explained
			}
			continue
		}
		if err != nil {
			return verdict{}, g.s.describe("look up "+held.Key+" of", err)
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

// toLookUp is what to look up: the newest that we hold, and first of all what the last connection left
// unexplained, since the events of a history that is not ours may have pushed it out of the newest.
func (g *guards) toLookUp(n int) []entry.ObjectRef {
	refs := slices.Collect(maps.Values(g.awaited))
	for _, ref := range g.s.newest.Refs {
		if _, ok := g.awaited[ref.Key]; !ok {
			refs = append(refs, ref)
		}
	}
	return refs[:min(n, len(refs))]
}

// found is the answer of Options.Lookup.
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
		g.s.heard()
	}
	return f.ref, f.is, err
}

// lookUpOne reads one identity, and where the server stands, if the answer tells. It is not usable if this
// ListerWatcher cannot look up.
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
	g.s.heard()
	ref, found, other, err := g.pick(list, key)
	if err == nil && !found && other {
		g.giveUpLookups(ctx, "the field selector of the requests is overwritten on the way, or the server ignores it")
		return entry.ObjectRef{}, false, false, "", nil
	}
	return ref, found, true, m.GetResourceVersion(), err
}

// giveUpLookups turns the guard off for this run.
func (g *guards) giveUpLookups(ctx context.Context, why string) {
	g.noLookups = true
	g.s.r.board.update(func(st *Status) { st.NoLookups = why })
	klog.FromContext(ctx).Info(
		"Objects cannot be looked up one by one: a server that was rewound and has overtaken us will not be noticed", "why",
		why)
}

// pick finds the object of that key in the answer, and tells whether there were others. An empty
// answer means not found even if the selector was overwritten: then nothing at all is in what we watch.
func (g *guards) pick(list runtime.Object, key string) (ref entry.ObjectRef, found, other bool, err error) {
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		got, rerr := g.s.gate.RefOf(obj)
		if _, ok := obj.(*metav1.PartialObjectMetadata); ok { // asked for by metadata, whatever the type of the objects is
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

// keySelector selects one object by its key.
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
