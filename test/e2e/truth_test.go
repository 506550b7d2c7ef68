package e2e

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// truth is the server's sequence of watch events, received by a plain watch without an informer.
type truth struct {
	mu     sync.Mutex // mu guards the fields below
	first  objects    // the listed objects at the start
	start  string
	stream []watch.Event
	failed error
}

func watchTruth(t *testing.T, c *cluster) *truth {
	t.Helper()
	pods := c.client.CoreV1().Pods(c.ns)
	return watchTruthOf(t, cache.ToListerWatcherWithContext(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object,
			error) {
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: pods.Watch,
	}))
}

func watchTruthOf(t *testing.T, lw cache.ListerWatcherWithContext) *truth {
	t.Helper()
	list, err := lw.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		t.Fatal(err)
	}
	tr := &truth{first: objects{}, start: l.GetResourceVersion()}
	if err := meta.EachListItem(list, func(obj runtime.Object) error { tr.first.put(t, obj); return nil }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { tr.record(ctx, lw.WatchWithContext) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return tr
}

// record watches, and continues when the server closes the watch because the client is slow.
func (tr *truth) record(ctx context.Context, open func(context.Context, metav1.ListOptions) (watch.Interface, error)) {
	for rv := tr.start; ctx.Err() == nil; {
		w, err := open(ctx, metav1.ListOptions{ResourceVersion: rv, AllowWatchBookmarks: true})
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			tr.fail(fmt.Errorf("watching the truth: %w", err))
			return
		}
		for e := range w.ResultChan() {
			if e.Type == watch.Error {
				tr.fail(fmt.Errorf("the watch that records the truth ended: %v", e.Object))
				break
			}
			rv = rvOf(e.Object)
			tr.mu.Lock()
			tr.stream = append(tr.stream, e)
			tr.mu.Unlock()
		}
		w.Stop()
	}
}

func (tr *truth) fail(err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.failed == nil {
		tr.failed = err
	}
}

func (tr *truth) events() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.stream)
}

func (tr *truth) mustEqual(t *testing.T, got stored, when string) {
	t.Helper()
	if got.ResourceVersion == "" {
		if got.Complete {
			t.Fatalf("%s: complete, but without a resourceVersion", when)
		}
		return // the process was killed during the first list: nothing is stored
	}
	eventually(t, "the recording", func() string {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if tr.failed != nil {
			t.Fatal(tr.failed)
		}
		if n := len(tr.stream); n == 0 || newer(t, got.ResourceVersion, rvOf(tr.stream[n-1].Object)) {
			return fmt.Sprintf("is behind the store, which stands at %s, after %d events", got.ResourceVersion, n)
		}
		return ""
	})
	if problem := tr.at(t, got.ResourceVersion).diff(got.objects); problem != "" {
		t.Fatalf("%s: the file says RV %s, but %s", when, got.ResourceVersion, problem)
	}
}

// complete waits until the received events lead to this state of the server.
func (tr *truth) complete(t *testing.T, want objects) {
	t.Helper()
	eventually(t, "the recording", func() string { return want.diff(tr.at(t, "")) })
}

// expect waits until the handler has received the objects of before, and then exactly the server's events in order.
func (tr *truth) expect(t *testing.T, r *recorder, before objects) {
	t.Helper()
	verbs := map[watch.EventType]string{watch.Added: "add", watch.Modified: "update", watch.Deleted: "delete"}
	tr.mu.Lock()
	var want []notice
	for _, e := range tr.stream {
		if verb := verbs[e.Type]; verb != "" {
			key, err := cache.MetaNamespaceKeyFunc(e.Object)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, notice{verb: verb, key: key, obj: e.Object})
		}
	}
	tr.mu.Unlock()
	eventually(t, "events", func() string {
		if n := len(r.all(t)) - len(before); n < len(want) {
			return fmt.Sprintf("%d of %d were told", n, len(want))
		}
		return ""
	})
	got := r.replayed(t, before)
	if len(got) != len(want) {
		t.Fatalf("%d events were told, want %d", len(got), len(want))
	}
	known := objects{}
	maps.Copy(known, before)
	for n, w := range want {
		g := got[n]
		if g.verb != w.verb || g.key != w.key || g.tombstone {
			t.Fatalf("event %d: told %s of %s (tombstone %t), want %s of %s", n, g.verb, g.key, g.tombstone, w.verb, w.key)
		}
		if problem := (objects{w.key: w.obj}).diff(objects{g.key: g.obj}); problem != "" {
			t.Fatalf("event %d, %s: %s", n, w.verb, problem)
		}
		if w.verb == "update" && rvOf(g.old) != rvOf(known[w.key]) {
			t.Fatalf("event %d: update of %s from RV %s, want %s", n, w.key, rvOf(g.old), rvOf(known[w.key]))
		}
		known[w.key] = w.obj
	}
}

// at returns the server's state at a resourceVersion, or after all events for "".
func (tr *truth) at(t *testing.T, rv string) objects {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if rv != "" && newer(t, tr.start, rv) {
		t.Fatalf("RV %s is older than the recording (%s)", rv, tr.start)
	}
	state := objects{}
	for key, obj := range tr.first {
		state[key] = obj
	}
	for _, e := range tr.stream {
		if rv != "" && newer(t, rvOf(e.Object), rv) {
			break
		}
		switch e.Type {
		case watch.Added, watch.Modified:
			state.put(t, e.Object)
		case watch.Deleted:
			key, err := cache.MetaNamespaceKeyFunc(e.Object)
			if err != nil {
				t.Fatal(err)
			}
			delete(state, key)
		}
	}
	return state
}

func newer(t *testing.T, a, b string) bool {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return order > 0
}
