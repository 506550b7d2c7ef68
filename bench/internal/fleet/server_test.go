package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// server is the model of an API server, or of several behind one address.
type server struct {
	history
	sc  scenario
	cpu *processor
	apf *fairness

	mu     sync.Mutex    // guards what follows
	zero   time.Time     // when the scenario begins; nothing is charged or counted before
	oldest int64         // a watch from before has no history
	broken chan struct{} // closed when the connections break; nil once they have
	tally  tally
}

// request is one as the server sees it.
type request struct {
	cost
	watch bool
	// begins a list.
	begins bool
}

// tally counts since time zero.
type tally struct {
	Requests int
	// Refused are those that came to nothing: refused by whomever, or too late.
	Refused int
	// Begun are lists that the server has begun to serve.
	Begun int
	Bytes float64
}

func newServer(sc scenario) *server {
	return &server{
		history: history{began: time.Now()}, sc: sc, broken: make(chan struct{}),
		cpu: newProcessor(serverCores), apf: newFairness(),
	}
}

// begin is time zero.
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

// begun reports whether time zero is over.
func (s *server) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.zero.IsZero()
}

// count adds to the tally, and returns it.
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

// serve charges a request.
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

// away returns how a request fails while the server is not there.
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

// errLate is how the context of a handler ends.
var errLate = errors.New("the handler's time is up")

// handle waits for a seat and does the work.
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
