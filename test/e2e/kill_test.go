package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Test 3: a process that is killed while it applies a stream of changes leaves a
// file that equals the state after some prefix of the stream, and the file's
// resourceVersion names that prefix.
func TestSIGKILLLeavesAPrefix(t *testing.T) {
	kills := 60
	if soak {
		kills = 1000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))

	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 100))
	truth := watchTruth(t, c)
	stopWriting := c.writeStream(t, seed)
	f := newFile(t)
	src := podSource(t, c.Config(t.Name()), c.ns)

	advanced, lastRV := 0, ""
	for n := range kills {
		p := startChild(t, c.Config(t.Name()), childConfig{Store: f.path, Namespace: c.ns, PageSize: 20})
		if n%2 == 0 { // in the stream; the others are anywhere: opening, first list, resuming
			p.waitFor(t, "the first object", func(r childReport) bool { return r.Synced })
		}
		time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		p.kill()
		if _, err := os.Stat(f.path); err == nil {
			got := f.read(t, src.identity, src.example)
			truth.mustEqual(t, got, fmt.Sprintf("kill %d", n+1))
			if got.ResourceVersion != lastRV {
				advanced, lastRV = advanced+1, got.ResourceVersion
			}
		}
	}
	stopWriting()
	if advanced < kills/3 {
		t.Errorf("only %d of %d kills found the file further on: the test shows little", advanced, kills)
	}
	t.Logf("%d kills, the file had advanced at %d of them, %d events", kills, advanced, truth.events())

	s := f.start(t, src)
	s.sync(t)
	s.converge(t, c.pods(t))
	s.stop(t)
	f.close(t)
	if problem := c.pods(t).diff(f.read(t, src.identity, src.example).objects); problem != "" {
		t.Error("in the end:", problem)
	}
}

// truth is the real stream of events, recorded with a plain watch.
type truth struct {
	mu     sync.Mutex // guards what follows
	first  objects    // as of start
	start  string
	stream []watch.Event
	failed error
}

// watchTruth lists the cluster's pods and records every event after that.
func watchTruth(t *testing.T, c *cluster) *truth {
	t.Helper()
	pods := c.client.CoreV1().Pods(c.ns)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tr := &truth{first: objects{}, start: list.ResourceVersion}
	for i := range list.Items {
		tr.first.put(t, &list.Items[i])
	}
	w, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for e := range w.ResultChan() {
			tr.mu.Lock()
			if e.Type == watch.Error {
				tr.failed = fmt.Errorf("the watch that records the truth ended: %v", e.Object)
			}
			tr.stream = append(tr.stream, e)
			tr.mu.Unlock()
		}
	})
	t.Cleanup(func() { w.Stop(); wg.Wait() })
	return tr
}

func (tr *truth) events() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.stream)
}

// mustEqual compares what was stored with the prefix of the stream that its
// resourceVersion names.
func (tr *truth) mustEqual(t *testing.T, got stored, when string) {
	t.Helper()
	if got.ResourceVersion == "" {
		if got.Complete {
			t.Fatalf("%s: complete, but without a resourceVersion", when)
		}
		return // killed in the first list: nothing can be resumed, and nothing says so
	}
	eventually(t, "the recording", func() string {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if tr.failed != nil {
			t.Fatal(tr.failed)
		}
		if n := len(tr.stream); n == 0 || newer(t, got.ResourceVersion, rvOf(tr.stream[n-1].Object)) {
			return "is behind the store"
		}
		return ""
	})
	if problem := tr.at(t, got.ResourceVersion).diff(got.objects); problem != "" {
		t.Fatalf("%s: the file says RV %s, but %s", when, got.ResourceVersion, problem)
	}
}

// at is the state after the prefix that ends with a resourceVersion.
func (tr *truth) at(t *testing.T, rv string) objects {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if newer(t, tr.start, rv) {
		t.Fatalf("RV %s is older than the recording (%s)", rv, tr.start)
	}
	state := objects{}
	for key, obj := range tr.first {
		state[key] = obj
	}
	for _, e := range tr.stream {
		if newer(t, rvOf(e.Object), rv) {
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

// writeStream creates, changes and deletes pods at random until stopped.
func (c *cluster) writeStream(t *testing.T, seed uint64) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 2 { // each writer has pods of its own, so none gets in another's way
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			if err := c.writeRandomly(ctx, fmt.Sprintf("w%d", w), random); err != nil && ctx.Err() == nil {
				t.Error("writing:", err)
			}
		})
	}
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

func (c *cluster) writeRandomly(ctx context.Context, prefix string, random *rand.Rand) error {
	pods := c.client.CoreV1().Pods(c.ns)
	now := int64(0)
	there := map[string]bool{}
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("%s-%03d", prefix, random.IntN(150))
		var err error
		switch {
		case !there[name]:
			_, err = pods.Create(ctx, pod(c.ns, name), metav1.CreateOptions{})
			there[name] = true
		case random.IntN(4) == 0:
			err = pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			there[name] = false
		default:
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n)
			_, err = pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
