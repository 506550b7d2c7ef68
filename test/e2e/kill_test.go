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

// Test 3: a process that is killed while it applies a stream of changes leaves a
// file that equals the state after some prefix of the stream, and the file's
// resourceVersion names that prefix. Beside it there is nothing but what the next one
// takes over, and in the end nothing at all.
func TestSIGKILLLeavesAPrefix(t *testing.T) {
	t.Parallel()
	kills := 60
	if soak {
		kills = 1000
	}
	random := newRandom(t)
	// A process lives for less than a second here. The default interval is tested by all the others.
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
		if n%2 == 0 { // in the stream; the others are anywhere: opening, first list, resuming
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

// onlyNames fails if there is a file in the store's directory that is neither a log nor the store's name with one of
// the endings: one that was moved aside, or left.
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
