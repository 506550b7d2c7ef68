package mapper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/larder-dev/larder/internal/limiter"
)

const (
	// missWait is how long a miss waits for the server: callers may hold locks that readers of other kinds need. coldWait
	// is how long it waits if there is no discovery at all, so that nothing can be read; it is client-go's time-out for a
	// discovery request.
	missWait = 10 * time.Second
	coldWait = 32 * time.Second
	// runWait is how long Run waits for an answer: a few hundred KB over a modem. Nobody waits for Run.
	runWait = 2 * time.Minute
)

// errCalledOff: the context of the caller that asked the server has ended. Others that wait ask for themselves.
var errCalledOff = errors.New("the request was called off")

// flight is one request for the server's discovery, and those who wait for it.
type flight struct {
	done chan struct{} // closed when known and err have been set
	// known is the discovery afterwards; err is the error of the request.
	known *known
	err   error
	// late is the error of a caller that waited in vain; nil if there was none. Guarded by Mapper.mu.
	late error
}

// miss asks the server because k lacks a kind or resource. asked is true if this caller sent the request, so that the
// answer is not older than the miss.
func (m *Mapper) miss(k *known) (now *known, asked bool, err error) {
	wait := missWait
	if k.asOf.IsZero() {
		wait = coldWait
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return m.learn(ctx)
}

// learn asks the server, or waits for a caller that does, until ctx ends.
func (m *Mapper) learn(ctx context.Context) (now *known, asked bool, err error) {
	for {
		f, leads, err := m.board()
		switch {
		case err != nil:
			return nil, false, err
		case leads:
			m.fly(ctx, f)
			return f.known, true, f.err
		}
		select {
		case <-f.done:
			if !errors.Is(f.err, errCalledOff) {
				return f.known, false, f.err
			}
		case <-ctx.Done():
			return nil, false, m.tooLate(f, context.Cause(ctx))
		}
	}
}

// board returns the request in progress, or a new one, which the caller must send (leads). It fails during the
// back-off, and if another caller has waited for the request in vain.
func (m *Mapper) board() (f *flight, leads bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.flight != nil:
		return m.flight, false, m.flight.late
	case time.Now().Before(m.until):
		return nil, false, m.askErr
	}
	m.flight = &flight{done: make(chan struct{})}
	return m.flight, true, nil
}

// tooLate records that the server has not answered in time. Later callers that meet the same request fail at once.
func (m *Mapper) tooLate(f *flight, cause error) error {
	err := m.unreachable(fmt.Errorf("it has not answered yet: %w", cause))
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.late == nil {
		f.late = err
	}
	return err
}

// fly sends the request f.
func (m *Mapper) fly(ctx context.Context, f *flight) {
	f.err = errCalledOff // if the transport panics
	defer func() {
		m.mu.Lock()
		m.flight = nil
		m.mu.Unlock()
		close(f.done)
	}()
	groups, failed, err := m.fetch(ctx)
	switch {
	case err == nil:
		f.known, f.err = m.learned(groups, failed), nil
	case !errors.Is(ctx.Err(), context.Canceled):
		f.err = m.missed(err)
	}
}

// fetch requests all of the server's discovery.
func (m *Mapper) fetch(ctx context.Context) ([]group, map[schema.GroupVersion]error, error) {
	apiGroups, lists, err := m.client.ServerGroupsAndResourcesWithContext(ctx)
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(err)
	groups := groupsOf(apiGroups, lists)
	switch {
	case len(groups) > 0:
		return groups, failed, nil
	case err == nil:
		err = errors.New("its answer has no resources")
	}
	return nil, nil, err
}

// learned replaces known by the server's answer.
func (m *Mapper) learned(groups []group, failed map[schema.GroupVersion]error) *known {
	m.limiter.Heard()
	k := know(keep(groups, m.known.Load().groups, failed), time.Now(), failed)
	m.known.Store(k)
	m.mu.Lock()
	m.answered, m.failures, m.until, m.askErr = true, 0, time.Time{}, nil
	m.mu.Unlock()
	select {
	case m.news <- struct{}{}:
	default: // news has a token already
	}
	return k
}

// missed records a failed request and sets the back-off.
func (m *Mapper) missed(cause error) error {
	if limiter.Answered(cause) {
		m.limiter.Heard()
	}
	err := m.unreachable(cause)
	m.mu.Lock()
	defer m.mu.Unlock()
	ceiling := limiter.Ceiling(m.failures)
	m.failures++
	m.until, m.askErr = time.Now().Add(rand.N(ceiling+1)), err
	return err
}

func (m *Mapper) unreachable(cause error) error {
	asOf := m.known.Load().asOf
	if asOf.IsZero() {
		return fmt.Errorf("%w, and nothing is known of them: %w", ErrUnreachable, cause)
	}
	return fmt.Errorf("%w; what it had at %s is known: %w", ErrUnreachable, asOf.UTC().Format(time.RFC3339), cause)
}
