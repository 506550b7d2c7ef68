package fleet

import (
	"net"
	"os"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// scenario is an event for the whole fleet of agents at time zero, such as a restart of the API server.
type scenario struct {
	Name, Title string
	// restart makes the agents restart, spread over startWithin. If restart is false, all connections break instead, and
	// for the duration away a request returns the error of the function down.
	restart bool
	// first makes the agents start for the first time, without stored state. restart is then true, too.
	first bool
	down  func() error
	away  time.Duration
	// lost makes the API server return without its watch history.
	lost bool
}

var scenarios = []scenario{
	{Name: "lost", Title: "An API server restarts, and has lost the history", down: refused, away: downTime, lost: true},
	{Name: "kept", Title: "503 for 20 s, the history is kept", down: unavailable, away: downTime},
	{Name: "switched", Title: "Another API server takes over at once"},
	{Name: "agents", Title: "All agents restart, the history is kept", restart: true},
	{Name: "first", Title: "All agents start for the first time", restart: true, first: true},
}

func (sc scenario) clients() []client {
	switch {
	case sc.lost:
		return []client{larder, clientGo, clientGoGet, spreading}
	case sc.first:
		return []client{larder, seeded, clientGo, clientGoGet}
	}
	return []client{larder, clientGo, clientGoGet}
}

func (sc scenario) lists(c client, n int) int {
	if sc.lost || sc.first && c.Name != seeded.Name {
		return n
	}
	return 0
}

// refused returns the error of a connection to a closed port. unavailable returns a load balancer's answer when no
// server is ready.
func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func unavailable() error {
	return apierrors.NewServiceUnavailable("no server is available to handle this request")
}

const (
	// startWithin is the period over which restarted agents start. spread is the period over which they first started.
	startWithin = 10 * time.Second
	spread      = 2 * time.Minute
	// outage is how long restarted agents were down, and seedAge is the age of the seed of new agents.
	outage  = time.Minute
	seedAge = 2 * time.Minute
	// watched is the minimal duration of a simulated run, and longest the maximal. A run ends when all agents have the
	// server's state.
	watched = 10 * time.Minute
	longest = 3 * time.Hour
)

type sample struct {
	tally
	CPU   float64 // seconds of all cores, since the start
	Level int     // agents that reached the server's state since time zero
}
