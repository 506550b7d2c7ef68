package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

func openPodsIn(t *testing.T, s *store.Store, namespace string) *store.Collection {
	t.Helper()
	id := entry.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource, Namespace: namespace}
	c, err := s.Collection(context.Background(), id,
		store.CollectionOptions{Codec: storetest.PodCodec(), Residency: store.None})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// acceptsMore reports whether c.Apply accepts another batch without waiting.
func acceptsMore(c *store.Collection) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return c.Backpressure(ctx) == nil
}

// TestBackpressureIsShared checks that while commits hang, a collection that has used its share of the limit on
// uncommitted bytes does not block other collections.
func TestBackpressureIsShared(t *testing.T) {
	s := storetest.Open(t, byHand())
	store.SetDirtyLimit(s, 10_000)
	g := store.GateCommits(s)
	busy, quiet := openPodsIn(t, s, "busy"), openPodsIn(t, s, "quiet")
	apply(t, busy, "1", upsert("busy/0", "1"))
	finish := hang(t, s, g)
	for n := 1; acceptsMore(busy); n++ {
		apply(t, busy, fmt.Sprint(n+1), upsert(fmt.Sprintf("busy/%d", n), fmt.Sprint(n+1)))
	}
	if n := s.Pending(); n < 10_000 || n > 11_000 {
		t.Errorf("%d bytes pending when one collection is full", n)
	}
	n := 0
	for ; acceptsMore(quiet); n++ {
		apply(t, quiet, fmt.Sprint(n+1), upsert(fmt.Sprintf("quiet/%d", n), fmt.Sprint(n+1)))
	}
	if bytes := s.Pending(); n < 5 || bytes < 15_000 || bytes > 16_000 {
		t.Errorf("%d bytes pending when both are full, after %d batches of the quiet one", bytes, n)
	}
	if _, err := quiet.Get(context.Background(), "quiet/0"); err != nil {
		t.Error(err)
	}
	waited := make(chan error, 2)
	for _, c := range []*store.Collection{busy, quiet} {
		go func() { waited <- c.Backpressure(context.Background()) }()
	}
	if err := finish(); err != nil {
		t.Error(err)
	}
	flush(t, s)
	for range 2 {
		if err := <-waited; err != nil {
			t.Error(err)
		}
	}
}

// TestUncommittedBytesAreBounded checks that the uncommitted bytes stay below twice the limit plus one batch.
func TestUncommittedBytesAreBounded(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := storetest.Open(t, byHand())
		limit := 1000 + random.IntN(50_000)
		store.SetDirtyLimit(s, limit)
		g := store.GateCommits(s)
		all := make([]*store.Collection, 1+random.IntN(20))
		for n := range all {
			all[n] = openPodsIn(t, s, fmt.Sprintf("ns-%d", n))
		}
		g.Fail(full)
		waiting, mine := map[int]bool{}, map[int]int{}
		for len(waiting) < len(all) {
			// The product makes some collections write more than others.
			n := int(float64(len(all)) * random.Float64() * random.Float64())
			if before := s.Pending(); !acceptsMore(all[n]) {
				if waiting[n] = true; before < limit || mine[n] < limit/len(all) && before < 2*limit {
					t.Fatalf("seed %d: it waits with %d of its own of %d pending, of %d among %d", seed, mine[n], before, limit,
						len(all))
				}
				continue
			} else if waiting[n] {
				t.Fatalf("seed %d: who has waited need not any more, though nothing was committed", seed)
			}
			before := s.Pending()
			key := fmt.Sprintf("ns-%d/%d-%s", n, mine[n], strings.Repeat("x", random.IntN(500)))
			if _, err := all[n].Apply(context.Background(),
				entry.Batch{Ops: []entry.Op{upsert(key, "1")}, ResourceVersion: "1"}); err != nil {
				t.Fatal(err)
			}
			mine[n] += s.Pending() - before
		}
		if n := s.Pending(); n > 2*limit+2000 {
			t.Errorf("seed %d: %d bytes pending, of %d", seed, n, limit)
		}
		g.Fail(nil)
		flush(t, s)
	}
}

// TestDropFromAFullFile matters because even the transaction that drops a collection must write pages.
func TestDropFromAFullFile(t *testing.T) {
	ctx := context.Background()
	o := byHand()
	o = store.AtOnce(o)
	o.MaxSize = 12 << 20
	s := storetest.Open(t, o)
	store.NoSync(s)
	gone, kept := openPodsIn(t, s, "gone"), openPodsIn(t, s, "kept")
	fillUp := func(c *store.Collection, prefix string) (n int) {
		for ; ; n++ {
			op := upsert(fmt.Sprintf("%s/%s-%05d", c.Identity().Namespace, prefix, n), "1", storetest.ColorLabel,
				strings.Repeat("x", 12_000))
			_, err := c.Apply(ctx, entry.Batch{Ops: []entry.Op{op}, ResourceVersion: "1"})
			if errors.Is(err, store.ErrNoSpace) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	first := fillUp(gone, "a")
	fillUp(kept, "a")
	before, _, err := s.Size()
	if err != nil {
		t.Fatal(err)
	}
	// The last object does not fit into the file, so Close must report its loss.
	if err := gone.Close(); !errors.Is(err, store.ErrNoSpace) {
		t.Fatal(err)
	}
	if err := s.Drop(ctx, gone.Identity()); err != nil {
		t.Fatalf("with %d objects in %d bytes: %v", first, before, err)
	}
	after, free, err := s.Size()
	if err != nil || after > before+8<<20 || free < before/2 {
		t.Errorf("the file has gone from %d to %d bytes, of which %d are free, %v", before, after, free, err)
	}
	if n := fillUp(kept, "b"); n < first/2 {
		t.Errorf("%d objects went where %d had been", n, first)
	}
	if again, _, err := s.Size(); err != nil || again != after {
		t.Errorf("the file has grown from %d to %d bytes, %v", after, again, err)
	}
	if err := kept.Close(); !errors.Is(err, store.ErrNoSpace) {
		t.Error(err)
	}
}

// TestDropFreesSpace checks that later writes reuse the freed pages, and that Compact returns the rest to the system.
func TestDropFreesSpace(t *testing.T) {
	ctx := context.Background()
	s := storetest.Open(t, byHand())
	store.NoSync(s)
	fillTo := func(c *store.Collection, bytes int) {
		for n := 0; n*3000 < bytes; {
			var ops []entry.Op
			for range 500 {
				ops = append(ops, upsert(fmt.Sprintf("%s/%06d", c.Identity().Namespace, n), "1", storetest.ColorLabel,
					strings.Repeat("x", 3000)))
				n++
			}
			apply(t, c, "1", ops...)
			flush(t, s)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	size := func() int64 {
		n, _, err := s.Size()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	a, b := openPodsIn(t, s, "a"), openPodsIn(t, s, "b")
	if err := s.Drop(ctx, a.Identity()); !errors.Is(err, store.ErrCollectionOpen) {
		t.Errorf("Drop of one that is open: %v", err)
	}
	fillTo(a, 20<<20)
	before := size()
	if err := s.Drop(ctx, a.Identity()); err != nil {
		t.Fatal(err)
	}
	fillTo(b, 20<<20)
	if after := size(); after > before+before/10 {
		t.Errorf("%d bytes with the second collection, %d with the first", after, before)
	}
	if err := s.Drop(ctx, b.Identity()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	// The file grows by 4 MiB at a time.
	if n := size(); n > 6<<20 {
		t.Errorf("%d bytes with nothing in them", n)
	}
}
