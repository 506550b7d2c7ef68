package fleet

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// scenario is what happens to the fleet at its time zero.
type scenario struct {
	Name, Title string
	// restart: the agents are restarted, within startWithin. Otherwise all connections break, and for the time away a
	// request fails as down says.
	restart bool
	down    func() error
	away    time.Duration
	// lost: the server comes back without its history.
	lost bool
}

var scenarios = []scenario{
	{Name: "lost", Title: "An API server restarts, and has lost the history", down: refused, away: downTime, lost: true},
	{Name: "kept", Title: "503 for 20 s, the history is kept", down: unavailable, away: downTime},
	{Name: "switched", Title: "Another API server takes over at once"},
	{Name: "agents", Title: "All agents restart, the history is kept", restart: true},
}

// refused is the error where nobody listens, and unavailable that of a load balancer that has no server.
func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func unavailable() error {
	return apierrors.NewServiceUnavailable("no server is available to handle this request")
}

const (
	// startWithin is how far apart agents start that are restarted, and spread how far apart they were when they
	// first did.
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
	Level int     // agents that have been level since time zero
}

// simulate runs a scenario with n agents, and returns a sample for each second since time zero.
func simulate(t *testing.T, sc scenario, c client, n int) (samples []sample) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		s, within := newServer(sc), spread
		time.Sleep(time.Minute) // some history
		agents := make([]agent, n)
		for i := range agents {
			agents[i] = c.prepare(s)
		}
		if sc.restart {
			time.Sleep(outage)
			within = startWithin
			s.begin()
		}
		var level atomic.Int64
		for _, run := range agents {
			wg.Go(func() {
				if sleep(ctx, rand.N(within)) == nil {
					run(ctx, levelOnce(s, &level))
				}
			})
		}
		if !sc.restart {
			time.Sleep(2 * spread)
			s.begin()
		}
		for done := false; !done; time.Sleep(time.Second) {
			samples = append(samples, sample{tally: s.count(tally{}), CPU: s.cpu.usage(), Level: int(level.Load())})
			passed := time.Duration(len(samples)-1) * time.Second
			done = passed >= longest || passed >= watched && int(level.Load()) == n
		}
	})
	return samples
}

// levelOnce returns what an agent calls when it is level: it counts the first time since time zero.
func levelOnce(s *server, level *atomic.Int64) func() {
	var once sync.Once
	return func() {
		if s.begun() {
			once.Do(func() { level.Add(1) })
		}
	}
}
