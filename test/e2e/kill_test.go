package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSIGKILLLeavesAPrefix kills processes while they apply a stream of changes. Each process must leave a file with
// the state after a prefix of the stream, and with that prefix's resourceVersion. The file's directory may contain only
// files that the next process replaces or removes, and at the end only the store.
func TestSIGKILLLeavesAPrefix(t *testing.T) {
	t.Parallel()
	kills := 60
	if soak {
		kills = 1000
	}
	random := newRandom(t)
	// The processes live for less than a second, so commits must be frequent. The other tests use the default interval.
	intervals := []time.Duration{time.Nanosecond, 5 * time.Millisecond, 50 * time.Millisecond}

	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 100))
	truth := watchTruth(t, c)
	stopWriting := c.writeStream(t, random.Uint64())
	f := newFile(t)
	src := podSource(t, c.Config(t.Name()), c.ns)

	advanced, lastRV := 0, ""
	for n := range kills {
		p := startChild(t, c.Config(t.Name()), childConfig{Store: f.path, Namespace: c.ns, PageSize: 20,
			CommitInterval: intervals[n%len(intervals)]})
		if n%2 == 0 { // half of the kills come during the stream, the others at any time: open, first list, resume
			p.waitFor(t, "the first object", func(r childReport) bool { return r.Synced })
		}
		time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		p.kill()
		f.onlyNames(t, "", ".opening", ".new-*")
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
	f.onlyNames(t, "")
	if problem := c.pods(t).diff(f.read(t, src.identity, src.example).objects); problem != "" {
		t.Error("in the end:", problem)
	}
}

// onlyNames fails if the store's directory has other files than logs and the store's name with one of the endings.
func (f *file) onlyNames(t *testing.T, endings ...string) {
	t.Helper()
	dir, base := filepath.Split(f.path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		expected := func(ending string) bool {
			ok, err := filepath.Match(base+ending, e.Name())
			return ok && err == nil
		}
		if !strings.HasPrefix(e.Name(), "child.log") && !slices.ContainsFunc(endings, expected) {
			t.Fatalf("%s is left", e.Name())
		}
	}
}

func (c *cluster) writeStream(t *testing.T, seed uint64) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 2 { // no pod has two writers
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
