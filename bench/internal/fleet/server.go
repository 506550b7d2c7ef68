package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kept is how many objects there are, each for 1,000 of those that are charged for.
const kept = 100

// phase is what the server is doing.
type phase string

const (
	serving phase = "serving"
	// refusing: nobody listens.
	refusing phase = "refusing"
	// unavailable: a load balancer answers that it has no server.
	unavailable phase = "unavailable"
	// initializing: the server listens, and has not filled its watch cache yet.
	initializing phase = "initializing"
)

// server is the model of an API server, or of several behind one address.
type server struct {
	cpu  *processor
	apf  *fairness
	born time.Time

	mu      sync.Mutex
	phase   phase                           // guarded by mu
	free    bool                            // guarded by mu; nothing is charged or counted yet
	objects []*metav1.PartialObjectMetadata // guarded by mu; what they are now, in order of their names
	history []*metav1.PartialObjectMetadata // guarded by mu; every change
	oldest  int64                           // guarded by mu; a watch from before has no history
	changed chan struct{}                   // guarded by mu; closed with the next change
	broken  chan struct{}                   // guarded by mu; closed when the connections break
	tally   tally                           // guarded by mu
}

// kind of a request.
type kind string

const (
	small kind = "small"
	page  kind = "page"
	// whole is a list in one answer, or a watch that begins with one.
	whole kind = "whole"
)

// request is one as the server sees it.
type request struct {
	cost
	kind  kind
	watch bool
	// begins a list.
	begins bool
}

// tally counts since the beginning.
type tally struct {
	Requests map[kind]int
	// Refused are those that came to nothing: refused by whomever, or too late.
	Refused int
	// Begun are lists that the server has begun to serve.
	Begun int
	Bytes float64
}

func newServer() *server {
	s := &server{
		cpu: newProcessor(serverCores), apf: newFairness(), born: time.Now(), phase: serving, free: true,
		changed: make(chan struct{}), broken: make(chan struct{}), tally: tally{Requests: map[kind]int{}},
	}
	for i := range kept {
		s.objects = append(s.objects, object(i, int64(i+1)))
	}
	return s
}

func object(i int, rv int64) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprintf("pod-%03d", i), UID: types.UID(strconv.Itoa(i)), ResourceVersion: strconv.FormatInt(rv, 10),
	}}
}

// rvLocked is the resourceVersion now. Changes of other resources move it, too.
func (s *server) rvLocked() int64 {
	return kept + 1 + int64(time.Since(s.born).Seconds()*rvRate) + int64(len(s.history))
}

// newest are the objects that changed last, and the resourceVersion now.
func (s *server) newest(n int) ([]*metav1.PartialObjectMetadata, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history[max(0, len(s.history)-n):], s.rvLocked()
}

// run changes an object now and then.
func (s *server) run(ctx context.Context) {
	ticker := time.NewTicker(changeEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.change(n * 7 % kept)
		}
	}
}

func (s *server) change(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[i] = object(i, s.rvLocked()+1)
	s.history = append(s.history, s.objects[i])
	close(s.changed)
	s.changed = make(chan struct{})
}

// fail breaks all connections and answers as the phase says from now on.
func (s *server) fail(p phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = p
	close(s.broken)
	s.broken = make(chan struct{})
}

// enter changes the phase. If the history is lost, watches from before now are told so.
func (s *server) enter(p phase, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = p
	if lost {
		s.oldest = s.rvLocked()
	}
}

// charge begins to count.
func (s *server) charge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = false
}

func (s *server) counts() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tally
	t.Requests = maps.Clone(t.Requests)
	return t
}

// arrive notes a request, and returns whether it is free of charge, or how it fails at once.
func (s *server) arrive(k kind) (free bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free {
		return true, nil
	}
	s.tally.Requests[k]++
	switch s.phase {
	case refusing:
		err = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case unavailable:
		err = apierrors.NewServiceUnavailable("no server is available to handle this request")
	case initializing:
		err = apierrors.NewTooManyRequests("storage is (re)initializing", 1)
	case serving:
	}
	return false, err
}

// errLate is how the context of a handler ends.
var errLate = errors.New("the handler's time is up")

// serve charges a request.
func (s *server) serve(ctx context.Context, r request) error {
	free, err := s.arrive(r.kind)
	if free {
		return nil
	}
	if err == nil {
		err = s.handle(ctx, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.tally.Refused++
		return err
	}
	s.tally.Bytes += r.bytes
	return nil
}

// handle waits for a seat and does the work.
func (s *server) handle(ctx context.Context, r request) error {
	if err := s.apf.take(ctx, r.seats); err != nil {
		return err
	}
	defer s.apf.give(r.seats)
	if r.begins {
		s.mu.Lock()
		s.tally.Begun++
		s.mu.Unlock()
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
