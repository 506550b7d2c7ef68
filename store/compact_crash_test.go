package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

const compactPods = 300

func openCompactPods(s *store.Store) (*store.Collection, error) {
	codec, err := codec.For(&corev1.Pod{})
	if err != nil {
		return nil, err
	}
	return s.Collection(context.Background(), pods(), store.CollectionOptions{
		Codec: codec, Residency: store.None, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
}

func compactStep(c *store.Collection, n uint64) error {
	batch := entry.Batch{ResourceVersion: fmt.Sprint(n)}
	for i := range compactPods {
		p := somePod(i)
		p.ResourceVersion, p.Annotations["large"] = fmt.Sprint(n), strings.Repeat("y", 10_000)
		batch.Ops = append(batch.Ops, entry.Op{Object: p})
	}
	_, err := c.Apply(context.Background(), batch)
	return err
}

func childCompact(path string) error {
	s, err := store.Open(path, store.AtOnce(store.Options{Logger: &quiet, LockTimeout: 10 * time.Second}))
	if err != nil {
		return err
	}
	c, err := openCompactPods(s)
	if err != nil {
		return err
	}
	info, err := c.Info(context.Background())
	if err != nil {
		return err
	}
	if err := s.PutDocument(context.Background(), "d", []byte(large)); err != nil {
		return err
	}
	n := uint64(0)
	_, _ = fmt.Sscan(info.ResourceVersion, &n)
	return stepForEver(c, n, s.Compact)
}

// stepForEver alternates compactStep and exchange, which replaces the file, and prints committed resourceVersions.
func stepForEver(c *store.Collection, n uint64, exchange func(context.Context) (store.Compacted, error)) error {
	for {
		n++
		if err := compactStep(c, n); err != nil {
			return err
		}
		fmt.Println(n)
		if _, err := exchange(context.Background()); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// TestKilledWhileCompacting checks a process killed at random moments while it compacts: the store has the committed
// state, and the next Open removes an unfinished copy.
func TestKilledWhileCompacting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	random := rand.New(rand.NewPCG(9, 10))
	kills := soaked(6, 100)
	last, copies := uint64(0), 0
	for kill := 0; kill < kills || copies == 0 && kill < 20*kills; kill++ {
		// Later kills follow until a kill has interrupted the copy of a compaction.
		said := killChild(t, "compact", path, time.Duration(random.IntN(40_000*(1+kill/kills)))*time.Microsecond)
		copies += len(disk.Beside(path, disk.SuffixNew))
		s, err := store.Open(path, store.Options{Logger: &quiet})
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if s.Quarantined() != "" {
			t.Fatalf("kill %d: a good file was moved aside", kill)
		}
		c, err := openCompactPods(s)
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		objs, info := mustListAll(t, c)
		_, _ = fmt.Sscan(info.ResourceVersion, &n)
		if last = max(last, said); n != last && n != last+1 {
			t.Fatalf("kill %d: the child said %d, the store has %d", kill, last, n)
		}
		last = n
		wantStep(t, kill, n, objs, info)
		if d := mustDocument(t, s, "d"); n > 0 && string(d) != large {
			t.Fatalf("kill %d: a document of %d bytes", kill, len(d))
		}
		if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 {
			t.Fatalf("kill %d: check: %q, %v", kill, r.Problems, err)
		}
		mustClose(t, s)
		wantNames(t, filepath.Dir(path), "store")
	}
	if copies == 0 {
		t.Error("no kill came while there was a copy")
	}
	t.Logf("%d kills came while there was a copy", copies)
}

func wantStep(t *testing.T, kill int, n uint64, objs []*corev1.Pod, info entry.Info) {
	t.Helper()
	for _, p := range objs {
		if p.ResourceVersion != info.ResourceVersion {
			t.Fatalf("kill %d: %s is at %s, the collection at %s", kill, p.Name, p.ResourceVersion, info.ResourceVersion)
		}
	}
	if n > 0 && len(objs) != compactPods {
		t.Fatalf("kill %d: %d pods", kill, len(objs))
	}
}

func mustListAll(t *testing.T, c *store.Collection) (all []*corev1.Pod, info entry.Info) {
	t.Helper()
	objs, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objs {
		all = append(all, obj.(*corev1.Pod))
	}
	return all, mustInfo(t, c)
}
