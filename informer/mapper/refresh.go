package mapper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/store"
)

const (
	// rewriteAfter is the age at which the stored discovery is written again although it has not changed, with the time
	// of the server's last answer.
	rewriteAfter = 24 * time.Hour
	// keepEvery is how often Run checks that the store has the document: a write may have failed, and Open
	// drops the damaged documents of a damaged file.
	keepEvery = 30 * time.Minute
	// lastWait is how long the end of Run waits for the store's writer.
	lastWait = 5 * time.Second
)

// Run asks the server once, as soon as it can be reached, unless a query for an unknown kind has done so. It stores the
// discovery then and after each change. It returns when ctx has ended and the last discovery is stored.
func (m *Mapper) Run(ctx context.Context) {
	m.contact(ctx)
	for ctx.Err() == nil {
		m.keep(ctx)
		select {
		case <-ctx.Done():
		case <-m.news:
		case <-time.After(keepEvery):
		}
	}
	// A program that exits right after its start has not stored its discovery yet.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
	defer cancel()
	m.keep(last)
}

func (m *Mapper) contact(ctx context.Context) {
	for said := false; m.sleep(ctx) && !m.answered(); {
		err := m.askLimited(ctx)
		if err != nil && ctx.Err() == nil && !said {
			said = true
			klog.FromContext(ctx).Info("The kinds of the API server are answered from what is known until it can be asked",
				"err", err)
		}
	}
}

func (m *Mapper) answered() bool { return !m.known.Load().asked.IsZero() }

// sleep waits until the back-off ends, or until any client of the limiter, this mapper included, has heard from the
// server again. It returns false if ctx has ended.
func (m *Mapper) sleep(ctx context.Context) bool {
	m.mu.Lock()
	wait := time.Until(m.until)
	m.mu.Unlock()
	_, _, recovered := m.limiter.Down()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-recovered:
		m.mu.Lock()
		m.until = time.Time{}
		m.mu.Unlock()
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// askLimited asks the server, unless a query for an unknown kind has done so. It first waits for a slot of the limiter
// that the store's informers share, so that only one of them tries while the server is unreachable.
func (m *Mapper) askLimited(ctx context.Context) error {
	slot, err := m.limiter.Connect(ctx, false, func(error) {})
	if err != nil {
		return err
	}
	defer slot.Done()
	if m.answered() || m.backedOff() != nil {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	defer slot.Await()()
	if _, err = m.fetch(asking); limiter.Unanswered(err) {
		slot.Failed(err)
	}
	return err
}

// keep writes the known discovery to the store, if the stored document differs or is older than rewriteAfter.
func (m *Mapper) keep(ctx context.Context) {
	k := m.known.Load()
	if m.store == nil || k.Fetched.IsZero() {
		return
	}
	have, err := m.read(ctx)
	if err != nil || !have.Equal(k.Discovery) || k.Fetched.Sub(have.Fetched).Abs() >= rewriteAfter {
		// The age is negative if the clock has been set back.
		err = k.Put(ctx, m.store)
	}
	if err != nil && ctx.Err() != nil {
		return // the end of Run tries again
	}
	m.mu.Lock()
	first := err != nil && m.keepErr == nil
	if m.keepErr = err; err == nil {
		m.stored = k.Discovery
	}
	m.mu.Unlock()
	if first && !errors.Is(err, store.ErrClosed) {
		klog.FromContext(ctx).Error(err, "The API server's resources cannot be stored; they are known to this process only")
	}
}

func (m *Mapper) read(ctx context.Context) (facts.Discovery, error) {
	d, err := facts.ReadDiscovery(ctx, m.store)
	if err != nil || d == nil {
		return facts.Discovery{}, err
	}
	return *d, nil
}

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
