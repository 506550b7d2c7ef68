package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/larder-dev/larder/reflector"
)

// TestOvertakenRewindThroughAFlakyLink restores etcd and writes past the informers' resourceVersion, while their
// network links are cut at random moments. Every informer must notice (issue 16, A13). LARDER_SOAK=1 runs ten rounds.
func TestOvertakenRewindThroughAFlakyLink(t *testing.T) {
	t.Parallel()
	random := newRandom(t)
	cp := ownControlPlane(t)
	c := newCluster(t, cp)
	c.createPods(t, append([]string{"clock"}, names("p", 0, 40)...))
	rounds, informers := 1, 8
	if soak {
		rounds, informers = 10, 16
	}
	for round := range rounds {
		all := make([]*flaky, informers) // new links and clients have no backoff from the previous round
		for n := range all {
			all[n] = newFlaky(t, c, fmt.Sprintf("%s/%d/%d", t.Name(), round, n))
		}
		rewindFlaky(t, c, random, round, all)
	}
}

type flaky struct {
	*subject
	link *network
}

func newFlaky(t *testing.T, c *cluster, agent string) *flaky {
	n := newNetwork(t, c.Address())
	return &flaky{newFile(t).start(t, podSource(t, n.through(c.Config(agent)), c.ns)), n}
}

func rewindFlaky(t *testing.T, c *cluster, random *rand.Rand, round int, informers []*flaky) {
	t.Helper()
	begun := time.Now()
	backup, err := c.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods := names("p", 0, 40)
	victims := pods[(3*round)%30:][:3]
	// The lost history ends with the objects that the informers' rewind checks look up.
	c.createPods(t, []string{fmt.Sprintf("lost-%d", round)})
	c.touchPods(t, victims[:2], fmt.Sprintf("lost %d", round))
	c.deletePods(t, victims[2:])
	before := c.pods(t)
	for _, f := range informers {
		f.converge(t, before)
	}
	left := c.resourceVersion(t)

	cutAll(t, random, informers, holding)
	if err := c.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	for n := 0; !newer(t, c.resourceVersion(t), left); n++ {
		c.touch(t, "clock", fmt.Sprintf("again %d.%d", round, n))
	}
	c.touchPods(t, pods[34:][:random.IntN(6)], fmt.Sprintf("other %d", round))
	cutAll(t, random, informers, passing)
	want := c.pods(t)
	for _, f := range informers {
		f.converge(t, want)
	}
	relists := map[reflector.Reason]int{}
	for _, f := range informers {
		for reason, n := range f.Status().Reflector.Relists {
			relists[reason] += n
		}
		f.stop(t)
		f.file.close(t)
		if problem := want.diff(f.file.read(t, f.source.identity, f.source.example).objects); problem != "" {
			t.Error("on disk:", problem)
		}
	}
	took := time.Since(begun).Round(100 * time.Millisecond)
	t.Logf("round %d: %d informers, relists %v, %v", round, len(informers), relists, took)
	if t.Failed() {
		t.FailNow()
	}
}

// cutAll cuts each network link a few times at random moments, and then sets the behaviour last.
func cutAll(t *testing.T, random *rand.Rand, informers []*flaky, last mode) {
	var cuts sync.WaitGroup
	for _, f := range informers {
		random := rand.New(rand.NewPCG(random.Uint64(), 0))
		cuts.Go(func() {
			pause := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
			set := func(m mode) {
				if err := f.link.set(m); err != nil {
					t.Error(err)
				}
			}
			for range random.IntN(3) {
				set([]mode{holding, resetting, refusing}[random.IntN(3)])
				pause(300 * time.Millisecond)
				set(passing)
				pause(2500 * time.Millisecond)
			}
			pause(300 * time.Millisecond)
			set(last)
		})
	}
	cuts.Wait()
}
