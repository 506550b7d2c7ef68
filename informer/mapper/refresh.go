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
	// missWait is how long a miss waits for the server: callers may hold locks that readers of other kinds want. coldWait
	// is how long if nothing is known at all, so that nothing can be read either; it is client-go's for a request of
	// discovery.
	missWait = 10 * time.Second
	coldWait = 32 * time.Second
	// runWait is how long Run does, which nobody waits for: a few hundred KB over a modem.
	runWait = 2 * time.Minute
)

// errCalledOff: whoever asked the server does not want to know any more. The others ask for themselves.
var errCalledOff = errors.New("the request was called off")

// flight is one time that the server is asked.
type flight struct {
	done chan struct{} // closed when what follows has been set
	// known is what is known then; err is why the server could not be asked.
	known *known
	err   error
	// late: somebody has waited for it in vain. Guarded by Mapper.mu.
	late error
}

// miss asks the server what is missing from k. asked: it was this caller who asked, so that what is known is not older
// than the miss.
func (m *Mapper) miss(k *known) (now *known, asked bool, err error) {
	wait := missWait
	if k.asOf.IsZero() {
		wait = coldWait
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return m.learn(ctx)
}

// learn asks the server, or waits for the caller who does, as long as ctx lasts.
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

// board returns the flight that is under way, or a new one, which the caller leads; or an error while there is no use
// in waiting.
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

// tooLate notes that the server has not answered in time. Whoever comes while it is still asked need not find that out
// for himself.
func (m *Mapper) tooLate(f *flight, cause error) error {
	err := m.unreachable(fmt.Errorf("it has not answered yet: %w", cause))
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.late == nil {
		f.late = err
	}
	return err
}

// fly asks the server for all who wait for f.
func (m *Mapper) fly(ctx context.Context, f *flight) {
	f.err = errCalledOff // should the transport panic
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

// fetch asks for all of discovery.
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

// learned makes what the server has said what is known.
func (m *Mapper) learned(groups []group, failed map[schema.GroupVersion]error) *known {
	m.limiter.Heard()
	k := know(keep(groups, m.known.Load().groups, failed), time.Now(), failed)
	m.known.Store(k)
	m.mu.Lock()
	m.answered, m.failures, m.until, m.askErr = true, 0, time.Time{}, nil
	m.mu.Unlock()
	select {
	case m.news <- struct{}{}:
	default: // there is word already
	}
	return k
}

// missed notes that the server could not be asked.
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
