package fleet

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// scenario is what happens to the fleet at its time zero.
type scenario struct {
	Name, Title string
	// restart: the agents are restarted, within startWithin. Otherwise all connections break, and for the time away it is answered as down says.
	restart bool
	down    phase
	away    time.Duration
	// lost: the server comes back without its history.
	lost bool
}

var scenarios = []scenario{
	{Name: "lost", Title: "An API server restarts, and has lost the history", down: refusing, away: downTime, lost: true},
	{Name: "kept", Title: "503 for 20 s, the history is kept", down: unavailable, away: downTime},
	{Name: "switched", Title: "Another API server takes over at once", down: serving},
	{Name: "agents", Title: "All agents restart, the history is kept", restart: true},
}

const (
	// startWithin is how far apart agents start that are restarted, and spread how far apart they were when they first did.
	startWithin = 10 * time.Second
	spread      = 2 * time.Minute
	// outage is how long agents that are restarted were away.
	outage = time.Minute
	// watched is how long a run goes on at least, longest at most. Every run lasts until all agents are level.
	watched = 10 * time.Minute
	longest = 3 * time.Hour
)

// sample is the state after some seconds.
type sample struct {
	tally
	CPU   float64 // seconds of all cores, since the beginning
	Level int     // agents
}

// fleet is one run.
type fleet struct {
	s     *server
	n     int
	begun atomic.Bool  // time zero is over
	level atomic.Int64 // agents that have been level since
}

// simulate runs a scenario with n agents, and returns a sample for each second since time zero.
func simulate(t *testing.T, sc scenario, c client, n int) (samples []sample) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		f := &fleet{s: newServer(), n: n}
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { f.s.run(ctx) })
		time.Sleep(time.Minute) // some history
		if sc.restart {
			agents := make([]func(context.Context, func()), n)
			for i := range agents {
				agents[i] = c.prepare(f.s)
			}
			time.Sleep(outage)
			f.begin()
			for _, run := range agents {
				wg.Go(func() { f.agent(ctx, run, startWithin) })
			}
		} else {
			for range n {
				wg.Go(func() { f.agent(ctx, c.prepare(f.s), spread) })
			}
			time.Sleep(2 * spread)
			f.begin()
			wg.Go(func() { f.fail(ctx, sc) })
		}
		samples = f.sample()
	})
	return samples
}

// begin is time zero.
func (f *fleet) begin() {
	f.begun.Store(true)
	f.s.charge()
}

// agent starts one within the time that is given, and runs it.
func (f *fleet) agent(ctx context.Context, run func(context.Context, func()), within time.Duration) {
	if sleep(ctx, rand.N(within)) != nil {
		return
	}
	var level atomic.Bool
	run(ctx, func() {
		if f.begun.Load() && !level.Swap(true) {
			f.level.Add(1)
		}
	})
}

// fail is the server's outage.
func (f *fleet) fail(ctx context.Context, sc scenario) {
	f.s.fail(sc.down)
	if sleep(ctx, sc.away) != nil {
		return
	}
	if sc.lost {
		f.s.enter(initializing, false)
		if sleep(ctx, startTime) != nil {
			return
		}
	}
	f.s.enter(serving, sc.lost)
}

// sample takes one each second until all agents are level.
func (f *fleet) sample() (samples []sample) {
	for begun := time.Now(); ; time.Sleep(time.Second) {
		samples = append(samples, sample{tally: f.s.counts(), CPU: f.s.cpu.usage(), Level: int(f.level.Load())})
		passed := time.Since(begun)
		if passed >= longest || passed >= watched && samples[len(samples)-1].Level == f.n {
			return samples
		}
	}
}
