package fleet

import (
	"net"
	"os"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// scenario is what happens to the fleet at its time zero.
type scenario struct {
	Name, Title string
	// restart: the agents are restarted, within startWithin. Otherwise all connections break, and for the time away a
	// request fails as down says.
	restart bool
	// first: the agents have never run, and have nothing that is stored. restart is true, too.
	first bool
	down  func() error
	away  time.Duration
	// lost: the server comes back without its history.
	lost bool
}

var scenarios = []scenario{
	{Name: "lost", Title: "An API server restarts, and has lost the history", down: refused, away: downTime, lost: true},
	{Name: "kept", Title: "503 for 20 s, the history is kept", down: unavailable, away: downTime},
	{Name: "switched", Title: "Another API server takes over at once"},
	{Name: "agents", Title: "All agents restart, the history is kept", restart: true},
	{Name: "first", Title: "All agents start for the first time", restart: true, first: true},
}

// clients are the kinds of agents with which the scenario is run.
func (sc scenario) clients() []client {
	switch {
	case sc.lost:
		return []client{larder, clientGo, clientGoGet, spreading}
	case sc.first:
		return []client{larder, seeded, clientGo, clientGoGet}
	}
	return []client{larder, clientGo, clientGoGet}
}

// lists is how many lists n agents of a kind need.
func (sc scenario) lists(c client, n int) int {
	if sc.lost || sc.first && c.Name != seeded.Name {
		return n
	}
	return 0
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
	// outage is how long agents that are restarted were away, and seedAge how old the seed is with which new ones begin.
	outage  = time.Minute
	seedAge = 2 * time.Minute
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
