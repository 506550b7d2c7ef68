package store_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

func paced(t *testing.T) (*store.Store, *hook.Gate, *store.Collection) {
	t.Helper()
	s := storetest.Open(t, store.Options{CommitBytes: 10_000, Logger: &quiet})
	return s, store.GateCommits(s), openPods(t, s, nil)
}

func applyMany(t *testing.T, s *store.Store, c *store.Collection, n int) (most int) {
	t.Helper()
	for rv := 1; rv <= n; rv++ {
		apply(t, c, fmt.Sprint(rv), upsert(fmt.Sprintf("a/%04d", rv), fmt.Sprint(rv)))
		most = max(most, s.Pending())
	}
	return most
}

// TestApplyKeepsPaceWithCommits checks that Apply waits when it is faster than the disk: uncommitted bytes must stay
// near twice CommitBytes (issue 16, A20).
func TestApplyKeepsPaceWithCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, c := paced(t)
		begun := time.Now()
		if most := applyMany(t, s, c, 2000); most < 10_000 || most > 21_000 {
			t.Errorf("%d bytes were pending", most)
		}
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("it waited %v beside commits that take no time", waited)
		}
	})
}

// TestApplyWaitsAWhileForACommit checks that Apply waits at most 5 s for a hanging commit, and not for failing commits.
func TestApplyWaitsAWhileForACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, c := paced(t)
		_, release := g.Hold()
		begun, done := time.Now(), make(chan int)
		go func() { done <- applyMany(t, s, c, 500) }()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if n := s.Pending(); n < 20_000 || n > 21_000 {
			t.Errorf("%d bytes are pending while a commit hangs", n)
		}
		if most, waited := <-done, time.Since(begun); most < 80_000 || waited != 5*time.Second {
			t.Errorf("%d bytes were pending, after %v", most, waited)
		}
		release()
		flush(t, s)
	})
	synctest.Test(t, func(t *testing.T) { // with Batch.Unpaced, Apply does not wait, since its caller has waited already
		s, g, c := paced(t)
		entered, release := g.Hold()
		begun := time.Now()
		for rv := 1; rv <= 500; rv++ {
			b := entry.Batch{Ops: []entry.Op{upsert(fmt.Sprintf("a/%04d", rv), fmt.Sprint(rv))}, Unpaced: true}
			if _, err := c.Apply(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		if n, waited := s.Pending(), time.Since(begun); n < 80_000 || waited > 0 {
			t.Errorf("unpaced, %d bytes were pending after %v", n, waited)
		}
		<-entered
		release()
		flush(t, s)
	})
	synctest.Test(t, func(t *testing.T) {
		s, g, c := paced(t)
		g.Fail(full)
		begun := time.Now()
		if most, waited := applyMany(t, s, c, 500), time.Since(begun); most < 80_000 || waited > 0 {
			t.Errorf("with commits that fail %d bytes were pending, after %v", most, waited)
		}
		g.Fail(nil)
		flush(t, s)
	})
}

// TestLimitOfResidencyAll checks that a commit starts at 32 MiB of uncommitted bytes if every open collection has
// Residency All, and at 4 MiB otherwise.
func TestLimitOfResidencyAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, store.Options{Logger: &quiet})
		pad := map[string]string{"pad": strings.Repeat("x", 1<<20)}
		fill := func(c *store.Collection) (most int) {
			for rv := 1; rv <= 34; rv++ {
				pod := storetest.Pod(fmt.Sprintf("a/%04d", rv), "uid", fmt.Sprint(rv))
				pod.Annotations = pad
				apply(t, c, fmt.Sprint(rv), entry.Op{Object: pod})
				most = max(most, s.Pending())
			}
			flush(t, s)
			return most
		}
		if most := fill(openPodsAs(t, s, nil, store.All)); most < 32<<20 {
			t.Errorf("%d bytes were pending at most", most)
		}
		if most := fill(openPodsIn(t, s, "a")); most < 4<<20 || most > 10<<20 {
			t.Errorf("beside a collection whose objects are on disk only %d bytes were pending at most", most)
		}
	})
}
