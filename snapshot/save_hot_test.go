package snapshot_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// changeLog has the changes that the test has applied to a collection: ops[n] has resourceVersion firstLogged+n.
type changeLog struct {
	mu  sync.Mutex
	ops []entry.Op
}

const firstLogged = 10_001

// replay returns the objects' resourceVersions by key after the logged changes up to a resourceVersion.
func (l *changeLog) replay(objects int, rv string) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := map[string]string{}
	for i := range objects {
		p := savedPod(i, "10000")
		state[p.Namespace+"/"+p.Name] = p.ResourceVersion
	}
	to, err := strconv.Atoi(rv)
	if err != nil || to-firstLogged >= len(l.ops) {
		return nil, fmt.Errorf("resourceVersion %q, of %d changes: %w", rv, len(l.ops), err)
	}
	for n, op := range l.ops[:to-firstLogged+1] {
		p := op.Object.(*corev1.Pod)
		if key := p.Namespace + "/" + p.Name; op.Type == entry.Delete {
			delete(state, key)
		} else {
			state[key] = strconv.Itoa(firstLogged + n)
		}
	}
	return state, nil
}

// TestSaveHotIsExact checks snapshots taken under 1,000 changes a second against the state of their resourceVersion.
func TestSaveHotIsExact(t *testing.T) {
	const objects = 2000
	dir := t.TempDir()
	s, err := store.Open(filepath.Join(dir, "a.db"), store.Options{Logger: &quiet, CommitInterval: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := listPods(t, s, objects, "10000")
	log := &changeLog{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- log.write(ctx, c, objects) }()
	seen := map[string]bool{}
	for n := range 8 {
		path := filepath.Join(dir, fmt.Sprintf("%d.larder", n))
		if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{}); err != nil {
			t.Fatal(err)
		}
		f := mustOpenFile(t, path, snapshot.OpenOptions{})
		col := f.Manifest().Collections[0]
		if col.ResourceVersion == "10000" {
			continue // the snapshot has no change yet, since none was committed
		}
		seen[col.ResourceVersion] = true
		want, err := log.replay(objects, col.ResourceVersion)
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, f, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(seen) < 4 {
		t.Errorf("only %d resourceVersions were seen", len(seen))
	}
}

func wantState(t *testing.T, f *snapshot.File, want map[string]string) {
	t.Helper()
	codec := mustCodec(t, &corev1.Pod{})
	got := recordsOf(t, f, savedPods)
	if len(got) != len(want) {
		t.Errorf("%d objects, want %d", len(got), len(want))
	}
	for _, r := range got {
		obj, err := codec.Decode(r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if rv := obj.(*corev1.Pod).ResourceVersion; rv != want[r.Key] || r.ResourceVersion != rv {
			t.Fatalf("%s is at %s (%s), want %q", r.Key, rv, r.ResourceVersion, want[r.Key])
		}
	}
}

func (l *changeLog) write(ctx context.Context, c *store.Collection, objects int) error {
	random, tick := rand.New(rand.NewPCG(1, 2)), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		rv := strconv.Itoa(firstLogged + n)
		op := entry.Op{Object: savedPod(random.IntN(objects+200), rv)}
		if random.IntN(4) == 0 {
			op.Type = entry.Delete
		}
		l.mu.Lock()
		l.ops = append(l.ops, op)
		l.mu.Unlock()
		if _, err := c.Apply(context.WithoutCancel(ctx), entry.Batch{ResourceVersion: rv, Ops: []entry.Op{op}}); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
