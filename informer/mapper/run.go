package mapper

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/store"
)

const (
	// rewriteAfter is the age at which the stored discovery is written again although it has not changed, with the time
	// of the server's last answer.
	rewriteAfter = 24 * time.Hour
	// keepEvery is how often Run checks that the store has the document: a write may have failed, and a rebuild of the
	// file drops damaged documents.
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
