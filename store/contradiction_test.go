package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

// event returns a watch event as an entry.Op. The UID is derived from the key unless uid is given.
func event(typ cache.DeltaType, key, rv string, uid ...string) entry.Op {
	pod := storetest.Pod(key, "uid-"+key, rv)
	if len(uid) > 0 {
		pod = storetest.Pod(key, uid[0], rv)
	}
	op := entry.Op{Object: pod, Event: typ}
	if typ == cache.Deleted {
		op.Type = entry.Delete
	}
	return op
}

// failing changes the op's object so that an index function fails on it.
func failing(op entry.Op) entry.Op {
	op.Object.(*corev1.Pod).Labels = map[string]string{storetest.FailLabel: "error"}
	return op
}

// unknownState returns a delete without the object's last state, as after a failed transform function.
func unknownState(key string) entry.Op {
	return entry.Op{Type: entry.Delete, Event: deleted, Object: cache.DeletedFinalStateUnknown{Key: key}}
}

func leaveOut(key, rv string) entry.Op {
	ref := entry.ObjectRef{Key: key, UID: "uid-" + key, ResourceVersion: rv}
	return entry.Op{Type: entry.LeaveOut, LeftOut: entry.LeftOut{ObjectRef: ref, Reason: entry.LeftOutTransform}}
}

const added, updated, deleted = cache.Added, cache.Updated, cache.Deleted

// TestContradictions checks which watch events contradict the collection's stored state, so that the server must be
// listed (issue 16, A13). The collection was listed at resourceVersion 10, with a/x and a/y.
func TestContradictions(t *testing.T) {
	for name, test := range map[string]struct {
		before, ops []entry.Op
		want        string
	}{
		"what follows": {nil, []entry.Op{
			event(added, "a/z", "11"), event(updated, "a/x", "12"), event(deleted, "a/y", "13"),
			event(added, "a/y", "14", "new"),
			event(updated, "a/y", "15", "new"), event(deleted, "a/y", "16", "new"), event(added, "a/y", "17"),
		}, ""},
		"modified, not held":      {nil, []entry.Op{event(updated, "a/z", "11")}, "a/z@11 "},
		"deleted, not held":       {nil, []entry.Op{event(deleted, "a/z", "11")}, "a/z@11 "},
		"deleted twice":           {nil, []entry.Op{event(deleted, "a/x", "11"), event(deleted, "a/x", "12")}, "a/x@12 "},
		"modified after a delete": {nil, []entry.Op{event(deleted, "a/x", "11"), event(updated, "a/x", "12")}, "a/x@12 "},
		"added, another UID":      {nil, []entry.Op{event(added, "a/x", "11", "new")}, "a/x@11 "},
		"modified, another UID":   {nil, []entry.Op{event(updated, "a/x", "11", "new")}, "a/x@11 "},
		"deleted, another UID":    {nil, []entry.Op{event(deleted, "a/x", "11", "new")}, "a/x@11 "},
		"then all is well":        {nil, []entry.Op{event(updated, "a/z", "11"), event(updated, "a/z", "12")}, "a/z@11 "},
		"added again":             {nil, []entry.Op{event(added, "a/x", "11")}, ""},
		"no UID":                  {nil, []entry.Op{event(added, "a/x", "11", ""), event(updated, "a/x", "12", "new")}, ""},
		"not asked":               {nil, []entry.Op{event("", "a/z", "11"), event("", "a/x", "12", "new")}, ""},
		"a delete without state":  {nil, []entry.Op{unknownState("a/z")}, ""},
		"no newer than held":      {nil, []entry.Op{event(deleted, "a/z", "10"), event(updated, "a/w", "9")}, ""},
		"not comparable":          {nil, []entry.Op{event(updated, "a/z", "x"), event(added, "a/x", "", "new")}, ""},
		"left out":                {[]entry.Op{leaveOut("a/z", "11")}, []entry.Op{event(updated, "a/z", "12")}, ""},
		"left out, deleted":       {[]entry.Op{leaveOut("a/z", "11")}, []entry.Op{event(deleted, "a/z", "12")}, ""},
		"left out, and settled": {
			[]entry.Op{leaveOut("a/z", "11"), event(deleted, "a/z", "12")},
			[]entry.Op{event(deleted, "a/z", "13")}, "a/z@13 ",
		},
		"another one was left out": {[]entry.Op{leaveOut("a/z", "11")}, []entry.Op{event(updated, "a/w", "12")}, "a/w@12 "},
		"refused by an index": {[]entry.Op{failing(event(added, "a/z", "11"))}, []entry.Op{event(updated, "a/z", "12")},
			""},
		"replaced, refused": {
			[]entry.Op{event(deleted, "a/x", "11"), failing(event(added, "a/x", "12", "new"))},
			[]entry.Op{event(updated, "a/x", "13", "new")}, "",
		},
		"left out in the batch": {nil, []entry.Op{leaveOut("a/z", "11"), event(updated, "a/z", "12")}, ""},
		"refused in the batch": {nil, []entry.Op{
			event(deleted, "a/x", "11"), failing(event(added, "a/x", "12", "new")), event(updated, "a/x", "13", "new"),
			failing(event(added, "a/z", "14")), event(deleted, "a/z", "15"), event(added, "a/z", "16", "new"),
		}, ""},
		"one had no key": {
			[]entry.Op{{Object: &corev1.Secret{}}},
			[]entry.Op{event(updated, "a/z", "12"), event(added, "a/x", "13", "new")}, "",
		},
		"over several batches": {
			[]entry.Op{event(deleted, "a/x", "11")},
			[]entry.Op{event(added, "a/x", "12", "new"), event(updated, "a/x", "13", "new")}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachCollection(t, func(t *testing.T, c store.Interface) {
				listPods(t, c, "10", "a/x", "a/y")
				apply(t, c, "", test.before...)
				if got := contradictions(apply(t, c, "20", test.ops...)); got != test.want {
					t.Errorf("%q contradict, want %q", got, test.want)
				}
			})
		})
	}
}

// TestContradictionsOfAnIncompleteCollection checks that a collection that is incomplete or must be listed reports no
// contradiction: its objects are no state of the server, and a list is due anyway.
func TestContradictionsOfAnIncompleteCollection(t *testing.T) {
	eachCollection(t, func(t *testing.T, c store.Interface) {
		ops := []entry.Op{event(updated, "a/z", "11"), event(added, "a/x", "12", "new")}
		if got := contradictions(apply(t, c, "", ops...)); got != "" {
			t.Errorf("before a list: %q", got)
		}
		listPods(t, c, "10", "a/x")
		if err := c.SetMustRelist(context.Background(), "test"); err != nil {
			t.Fatal(err)
		}
		if got := contradictions(apply(t, c, "", ops...)); got != "" {
			t.Errorf("before another list: %q", got)
		}
		listPods(t, c, "20", "a/x")
		if got := contradictions(apply(t, c, "", event(updated, "a/z", "21"))); got != "a/z@21 " {
			t.Errorf("after it: %q", got)
		}
	})
}

// TestIfContradicted checks that Apply copies Batch.IfContradicted to Info.MustRelist after a contradicting op.
func TestIfContradicted(t *testing.T) {
	eachCollection(t, func(t *testing.T, c store.Interface) {
		want := func(what, rv, reason string, b entry.Batch) {
			t.Helper()
			b.ResourceVersion = rv
			if _, err := c.Apply(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			if info := infoOf(t, c); info.MustRelist != reason || info.ResourceVersion != rv {
				t.Errorf("%s: to be listed for %q at %s", what, info.MustRelist, info.ResourceVersion)
			}
		}
		ops := func(ops ...entry.Op) []entry.Op { return ops }
		listPods(t, c, "10", "a/x", "a/y")
		want("in order", "11", "", entry.Batch{IfContradicted: "why", Ops: ops(event(updated, "a/x", "11"))})
		want("not asked", "12", "", entry.Batch{Ops: ops(event(updated, "a/v", "12"))})
		want("excused", "12", "", entry.Batch{IfContradicted: "why", Ops: ops(event(updated, "a/w", "12"))})
		want("contradicted", "14", "why", entry.Batch{
			IfContradicted: "why", Ops: ops(event(updated, "a/z", "13"), event(updated, "a/x", "14")),
		})
		want("again", "15", "why", entry.Batch{IfContradicted: "why not", Ops: ops(event(updated, "a/u", "15"))})
		want("in order after it", "16", "why", entry.Batch{Ops: ops(event(updated, "a/x", "16"))})
		listPods(t, c, "20", "a/x", "a/y")
		want("after a list", "21", "", entry.Batch{IfContradicted: "why", Ops: ops(event(updated, "a/x", "21"))})
	})
}

func TestIfContradictedIsStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, byHand())
	c := openPods(t, s, nil)
	listPods(t, c, "10", "a/x")
	apply(t, c, "11", event(updated, "a/x", "11"))
	b := entry.Batch{ResourceVersion: "12", Ops: []entry.Op{event(deleted, "a/z", "12")}, IfContradicted: "why"}
	if _, err := c.Apply(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	flush(t, s)
	apply(t, c, "13", event(updated, "a/x", "13"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info := infoOf(t, openPods(t, storetest.OpenFile(t, path, byHand()), nil)); info.MustRelist != "why" {
		t.Errorf("to be listed for %q", info.MustRelist)
	}
}

// contradictions returns the keys and resourceVersions of the changes that contradict the stored state.
func contradictions(res entry.Result) (out string) {
	for _, ch := range res.Changes {
		if ch.Contradicts {
			out += fmt.Sprintf("%s@%s ", ch.Key, ch.New.(*corev1.Pod).ResourceVersion)
		}
	}
	return out
}

func listPods(t *testing.T, c store.Interface, rv string, keys ...string) {
	t.Helper()
	r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if _, err := r.Page(context.Background(), []runtime.Object{storetest.Pod(key, "uid-"+key, rv)}); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		res, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: rv})
		if err != nil {
			t.Fatal(err)
		}
		more = res.More
	}
}

// eachCollection runs the test with a memory.Collection, and with a store.Collection of each Residency.
func eachCollection(t *testing.T, test func(t *testing.T, c store.Interface)) {
	t.Run("memory", func(t *testing.T) {
		c, err := memory.New(storetest.Pods, store.CollectionOptions{Indexers: byNamespaceAndColor})
		if err != nil {
			t.Fatal(err)
		}
		test(t, c)
	})
	residencies := map[string]store.Residency{"all": store.All, "none": store.None}
	for name, r := range residencies {
		t.Run(name, func(t *testing.T) {
			test(t, openPodsAs(t, storetest.Open(t, store.Options{}), byNamespaceAndColor, r))
		})
		t.Run(name+", each batch committed", func(t *testing.T) {
			test(t, openPodsAs(t, storetest.Open(t, store.AtOnce(store.Options{})), byNamespaceAndColor, r))
		})
	}
}

// TestDamageIsKeptBesideAContradiction checks that after a repair MustRelistDamaged replaces any other reason in
// Info.MustRelist.
func TestDamageIsKeptBesideAContradiction(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), byHand())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := listed(t, s)
	b := entry.Batch{ResourceVersion: "12", Ops: []entry.Op{event(deleted, "a/zzz", "12")}, IfContradicted: "Rewound"}
	if _, err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	damageLeaf(t, s.Path(), "a/0300", func(leaf []byte, body int) { leaf[body] ^= 1 })
	if err := s.Scrub(t.Context()); !errors.Is(err, entry.ErrDamaged) {
		t.Fatal(err)
	}
	s = salvage(t, s, byHand())
	if info := infoOf(t, openPodsWith(t, s, store.CollectionOptions{})); info.MustRelist != store.MustRelistDamaged {
		t.Errorf("MustRelist is %q after a repair with losses", info.MustRelist)
	}
}
