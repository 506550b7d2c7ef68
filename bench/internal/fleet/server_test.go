package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// server is the model of an API server, or of several API servers behind one address.
type server struct {
	history
	sc  scenario
	cpu *processor
	apf *fairness

	mu     sync.Mutex    // mu guards the fields below
	zero   time.Time     // start of the scenario; earlier requests cost nothing and are not counted
	oldest int64         // watches from an earlier resourceVersion get 410
	broken chan struct{} // closed to break the connections; nil afterwards
	tally  tally
}

type request struct {
	cost
	watch  bool
	begins bool
}

// tally counts requests since time zero, the start of the scenario.
type tally struct {
	Requests int
	// Refused counts failed requests: refused by a load balancer or the server, or timed out.
	Refused int
	// Begun counts lists that the server has begun to serve.
	Begun int
	Bytes float64
}

func newServer(sc scenario) *server {
	return &server{
		history: history{began: time.Now()}, sc: sc, broken: make(chan struct{}),
		cpu: newProcessor(serverCores), apf: newFairness(),
	}
}

// begin marks time zero, from which on requests are charged and counted.
func (s *server) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zero = time.Now()
	if s.sc.lost {
		s.oldest = s.rv(s.now() + s.sc.away + startTime)
	}
	if !s.sc.restart {
		close(s.broken)
		s.broken = nil
	}
}

func (s *server) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.zero.IsZero()
}

// count adds requests to the server's totals, and returns the totals.
func (s *server) count(add tally) tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.zero.IsZero() {
		s.tally = tally{
			s.tally.Requests + add.Requests, s.tally.Refused + add.Refused, s.tally.Begun + add.Begun,
			s.tally.Bytes + add.Bytes,
		}
	}
	return s.tally
}

// serve simulates a request: it waits as long as the server would take, and counts the result.
func (s *server) serve(ctx context.Context, r request) error {
	if !s.begun() {
		return nil
	}
	s.count(tally{Requests: 1})
	err := s.away()
	if err == nil {
		err = s.handle(ctx, r)
	}
	if err != nil {
		s.count(tally{Refused: 1})
		return err
	}
	s.count(tally{Bytes: r.bytes})
	return nil
}

// away returns the error of requests while the server is down or starting, and otherwise nil.
func (s *server) away() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch since := time.Since(s.zero); {
	case since < s.sc.away:
		return s.sc.down()
	case s.sc.lost && since < s.sc.away+startTime:
		return apierrors.NewTooManyRequests("storage is (re)initializing", 1)
	}
	return nil
}

// errLate is the context's cancellation cause when a request exceeds the server's timeout.
var errLate = errors.New("the handler's time is up")

// handle waits for priority-and-fairness seats, and then for the request's processor time.
func (s *server) handle(ctx context.Context, r request) error {
	if err := s.apf.take(ctx, r.seats); err != nil {
		return err
	}
	defer s.apf.seats.Release(r.seats)
	if r.begins {
		s.count(tally{Begun: 1})
	}
	if !r.watch {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, handlerTime, errLate)
		defer cancel()
	}
	err := s.cpu.work(ctx, r.cpu)
	if errors.Is(err, errLate) {
		return apierrors.NewTimeoutError("the server was unable to return a response in the time allotted", 0)
	}
	return err
}
