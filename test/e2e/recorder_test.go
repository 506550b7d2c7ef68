package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

type notice struct {
	verb    string // one of add, update and delete
	key     string
	initial bool // isInInitialList, the argument of OnAdd
	old     runtime.Object
	obj     runtime.Object
	// tombstone is true for a delete with a cache.DeletedFinalStateUnknown.
	tombstone bool
}

// recorder is an event handler that keeps a list of its calls.
type recorder struct {
	mu      sync.Mutex // mu guards the fields below
	notices []notice
	err     error
}

func (r *recorder) OnAdd(obj any, initial bool) {
	r.add(notice{verb: "add", initial: initial, obj: obj.(runtime.Object)})
}

func (r *recorder) OnUpdate(old, obj any) {
	r.add(notice{verb: "update", old: old.(runtime.Object), obj: obj.(runtime.Object)})
}

func (r *recorder) OnDelete(obj any) {
	last, tombstone, err := lastState(obj)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = err
		return
	}
	r.add(notice{verb: "delete", obj: last, tombstone: tombstone})
}

func (r *recorder) add(n notice) {
	key, err := cache.MetaNamespaceKeyFunc(n.obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = err
	}
	n.key = key
	r.notices = append(r.notices, n)
}

func (r *recorder) all(t *testing.T) []notice {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		t.Fatal(r.err)
	}
	return slices.Clone(r.notices)
}

// state returns the objects that a client knows after the calls of the handler.
func (r *recorder) state(t *testing.T) objects {
	t.Helper()
	known := objects{}
	for _, n := range r.all(t) {
		if n.verb == "delete" {
			delete(known, n.key)
		} else {
			known[n.key] = n.obj
		}
	}
	return known
}

// replayed waits until each of the stored objects has arrived as an add of the initial list, once and before all other
// calls. It returns the other calls.
func (r *recorder) replayed(t *testing.T, want objects) []notice {
	t.Helper()
	eventually(t, "replay", func() string {
		if n := len(r.all(t)); n < len(want) {
			return fmt.Sprintf("%d of %d objects were replayed", n, len(want))
		}
		return ""
	})
	all := r.all(t)
	got := objects{}
	for _, n := range all[:len(want)] {
		if n.verb != "add" || !n.initial {
			t.Fatalf("%s of %s before the replay was over", n.verb, n.key)
		}
		got[n.key] = n.obj
	}
	if problem := want.diff(got); problem != "" {
		t.Fatal("replay:", problem)
	}
	return all[len(want):]
}

type changes map[string]map[string]notice

// changesOf groups the calls of a handler by verb and key. It fails if a verb occurs twice for a key.
func changesOf(t *testing.T, notices []notice) changes {
	t.Helper()
	out := changes{"add": {}, "update": {}, "delete": {}}
	for _, n := range notices {
		if _, twice := out[n.verb][n.key]; twice {
			t.Fatalf("%s of %s was told twice", n.verb, n.key)
		}
		out[n.verb][n.key] = n
	}
	return out
}

// expect waits until the handler has received the stored objects, and then exactly one call for each difference between
// the states before and after. The calls must have the right objects.
func (r *recorder) expect(t *testing.T, before, after objects) changes {
	t.Helper()
	want := 0
	for key, obj := range after {
		if old, found := before[key]; !found || rvOf(old) != rvOf(obj) {
			want++
		}
	}
	for key := range before {
		if _, found := after[key]; !found {
			want++
		}
	}
	eventually(t, "changes", func() string {
		if n := len(r.all(t)) - len(before); n < want {
			return fmt.Sprintf("%d of %d were told", n, want)
		}
		return ""
	})
	got := changesOf(t, r.replayed(t, before))
	if n := len(got["add"]) + len(got["update"]) + len(got["delete"]); n != want {
		t.Fatalf("%d changes were told, want %d", n, want)
	}
	got.verify(t, before, after)
	return got
}

func (c changes) verify(t *testing.T, before, after objects) {
	t.Helper()
	adds, updates, deletes := objects{}, objects{}, objects{}
	for key, obj := range after {
		if old, found := before[key]; !found {
			adds[key] = obj
		} else if rvOf(old) != rvOf(obj) {
			updates[key] = obj
			if n, found := c["update"][key]; found && rvOf(n.old) != rvOf(old) {
				t.Errorf("update of %s from RV %s, want %s", key, rvOf(n.old), rvOf(old))
			}
		}
	}
	for key, obj := range before {
		if _, found := after[key]; !found {
			deletes[key] = obj
		}
	}
	for verb, want := range map[string]objects{"add": adds, "update": updates} {
		got := objects{}
		for key, n := range c[verb] {
			got[key] = n.obj
		}
		if problem := want.diff(got); problem != "" {
			t.Errorf("%ss: %s", verb, problem)
		}
	}
	if len(c["delete"]) != len(deletes) {
		t.Errorf("%d deletes were told, want %d", len(c["delete"]), len(deletes))
	}
	for key, obj := range deletes {
		n, found := c["delete"][key]
		if !found {
			t.Errorf("the delete of %s was not told", key)
			continue
		}
		// The object of a delete from a watch is the last state with the deletion's resourceVersion. The object of a
		// tombstone is the stored state.
		last := n.obj.DeepCopyObject()
		if !n.tombstone {
			setRV(last, rvOf(obj))
		}
		if problem := (objects{key: obj}).diff(objects{key: last}); problem != "" {
			t.Errorf("last state of the deleted %s", problem)
		}
	}
}

func (r *recorder) onlyAdds(t *testing.T) {
	t.Helper()
	for _, n := range r.all(t) {
		if n.verb != "add" {
			t.Errorf("%s of %s in a cold start", n.verb, n.key)
		}
	}
}
