package mapper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/limiter"
)

const (
	// missWait bounds how long a miss (a query for a kind or resource that is not in the known discovery) waits for the
	// server. It is short because callers may hold locks that readers of other kinds need. coldWait replaces it while
	// no discovery is known, when no kind can be read at all. It is client-go's timeout of a discovery request.
	missWait = 10 * time.Second
	coldWait = 32 * time.Second
	// runWait bounds how long Run waits for an answer: a few hundred KB over a modem. No caller waits for Run.
	runWait = 2 * time.Minute
)

func (m *Mapper) miss() (*known, error) {
	wait := missWait
	if m.known.Load().Fetched.IsZero() {
		wait = coldWait
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return m.fetch(ctx)
}

// fetch returns the server's answer to a request that began after this call. Only one caller sends a request at a time.
// The callers that waited meanwhile share the answer to the next request. fetch fails if ctx ends, and at once during
// the back-off.
func (m *Mapper) fetch(ctx context.Context) (*known, error) {
	called := time.Now()
	if err := m.backedOff(); err != nil {
		return nil, err
	}
	select {
	case m.sem <- struct{}{}:
		defer func() { <-m.sem }()
	case <-ctx.Done():
		return nil, m.failed(ctx, fmt.Errorf("it has not answered yet: %w", context.Cause(ctx)))
	}
	if k := m.known.Load(); k.asked.After(called) {
		return k, nil
	}
	if err := m.backedOff(); err != nil {
		return nil, err
	}
	k := &known{asked: time.Now()}
	groups, lists, err := m.client.ServerGroupsAndResourcesWithContext(ctx)
	k.failed, _ = discovery.GroupDiscoveryFailedErrorGroups(err)
	if len(lists) == 0 {
		if err == nil {
			err = errors.New("its answer has no resources")
		}
		return nil, m.failed(ctx, err)
	}
	k.Discovery = facts.DiscoveryOf(groups, lists)
	k.Keep(m.known.Load().Discovery, k.failed)
	m.fetched(k)
	return k, nil
}

func (m *Mapper) backedOff() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.until) {
		return m.askErr
	}
	return nil
}

func (m *Mapper) fetched(k *known) {
	m.limiter.Received()
	m.setKnown(k)
	m.mu.Lock()
	m.failures, m.until, m.askErr = 0, time.Time{}, nil
	m.mu.Unlock()
	select {
	case m.news <- struct{}{}:
	default: // news has a token already
	}
}

// failed starts the back-off and returns the error for the caller. Callers that share a request and time out together
// count as one failure. A caller whose context was canceled does not count, so the next caller sends a request.
func (m *Mapper) failed(ctx context.Context, cause error) error {
	if limiter.Answered(cause) {
		m.limiter.Received()
	}
	what := ", and nothing is known of them"
	if asOf := m.known.Load().Fetched; !asOf.IsZero() {
		what = "; what it had at " + asOf.UTC().Format(time.RFC3339) + " is known"
	}
	err := fmt.Errorf("%w%s: %w", ErrUnreachable, what, cause)
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); !now.Before(m.until) && !errors.Is(ctx.Err(), context.Canceled) {
		m.until, m.askErr = now.Add(rand.N(limiter.Ceiling(m.failures)+1)), err
		m.failures++
	}
	return err
}
