package fleet

import (
	"net"
	"os"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// scenario is an event for the whole fleet at time zero.
type scenario struct {
	Name, Title string
	// restart: the agents restart, within startWithin. Otherwise all connections break, and for the time away a request
	// returns the error of down.
	restart bool
	// first: the agents never ran, and have no stored state. restart is true, too.
	first bool
	down  func() error
	away  time.Duration
	// lost: the server returns without its history.
	lost bool
}

var scenarios = []scenario{
	{Name: "lost", Title: "An API server restarts, and has lost the history", down: refused, away: downTime, lost: true},
	{Name: "kept", Title: "503 for 20 s, the history is kept", down: unavailable, away: downTime},
	{Name: "switched", Title: "Another API server takes over at once"},
	{Name: "agents", Title: "All agents restart, the history is kept", restart: true},
	{Name: "first", Title: "All agents start for the first time", restart: true, first: true},
}

// clients returns the kinds of agents that run in the scenario.
func (sc scenario) clients() []client {
	switch {
	case sc.lost:
		return []client{larder, clientGo, clientGoGet, spreading}
	case sc.first:
		return []client{larder, seeded, clientGo, clientGoGet}
	}
	return []client{larder, clientGo, clientGoGet}
}

// lists returns the number of lists that n agents of a kind need.
func (sc scenario) lists(c client, n int) int {
	if sc.lost || sc.first && c.Name != seeded.Name {
		return n
	}
	return 0
}

// refused returns the error of a closed port, and unavailable the answer of a load balancer without a server.
func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func unavailable() error {
	return apierrors.NewServiceUnavailable("no server is available to handle this request")
}

const (
	// startWithin is the time in which restarted agents start, and spread the time in which they first started.
	startWithin = 10 * time.Second
	spread      = 2 * time.Minute
	// outage is how long restarted agents were down, and seedAge the age of the seed of new agents.
	outage  = time.Minute
	seedAge = 2 * time.Minute
	// watched is the minimal duration of a run, and longest the maximal. A run ends when all agents are level.
	watched = 10 * time.Minute
	longest = 3 * time.Hour
)

// sample is the state after a number of seconds.
type sample struct {
	tally
	CPU   float64 // seconds of all cores, since the start
	Level int     // agents that were level since time zero
}
