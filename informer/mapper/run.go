package mapper

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/store"
)

const (
	// rewriteAfter is how old the stored time may be at which the server said what is stored.
	rewriteAfter = 24 * time.Hour
	// keepAgain is when a write that failed is tried again. The server can be asked anew, so nobody is in a hurry.
	keepAgain = 10 * time.Minute
	// lookEvery is how often it is made sure that the store still has it: a repair of the file removes what is damaged.
	lookEvery = time.Hour
	// lastWait is how long the end of Run waits for the store's writer.
	lastWait = 5 * time.Second
)

// Run asks the server as soon as it can be reached, unless a miss has, and keeps in the store what it says, then and
// later. It returns when ctx has ended and what was learned before is stored.
func (m *Mapper) Run(ctx context.Context) {
	select {
	case m.turn <- struct{}{}: // also if ctx has ended: there may be something to keep
	default:
		select {
		case m.turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
	defer func() { <-m.turn }()
	defer m.keepLast(ctx)
	if !m.contact(ctx) {
		return
	}
	for {
		wait := lookEvery
		if err := m.keep(ctx); err != nil {
			wait = keepAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-m.news:
		case <-time.After(wait):
			m.look(ctx)
		}
	}
}

// contact asks the server until it has answered. It returns false if ctx ended before. It takes its turn to connect
// among the store's informers, so that a process that finds its server again, or that tries whether it is there, is one
// that does so.
func (m *Mapper) contact(ctx context.Context) bool {
	for said := false; ; {
		answered, err := m.awaitTurn(ctx)
		switch {
		case answered || ctx.Err() != nil:
			return answered
		case err != nil && !said:
			said = true
			m.logUnreachable(ctx, err)
		}
	}
}

// logUnreachable says what goes on without the server.
func (m *Mapper) logUnreachable(ctx context.Context, err error) {
	logger := klog.FromContext(ctx)
	if asOf := m.known.Load().asOf; !asOf.IsZero() {
		logger.Info("The API server cannot be asked for its resources; those that are known are used until it can", "asOf",
			asOf, "err", err)
		return
	}
	logger.Info("The API server cannot be asked for its resources, and none are known; nothing is found until it can",
		"err", err)
}

// awaitTurn asks the server once it is time to, unless somebody else has been answered meanwhile. The error is why the
// server could not be asked.
func (m *Mapper) awaitTurn(ctx context.Context) (answered bool, err error) {
	wait, answered := m.due()
	if answered || !m.sleep(ctx, wait) {
		return answered, nil
	}
	slot, err := m.limiter.Connect(ctx, func(error) {})
	if err != nil {
		return false, err
	}
	defer slot.Done()
	if wait, answered := m.due(); answered || wait > 0 { // a miss has asked
		return answered, nil
	}
	asking, cancel := context.WithTimeout(ctx, runWait)
	defer cancel()
	if _, _, err = m.learn(asking); err != nil {
		if limiter.Unanswered(err) {
			slot.Failed(err)
		}
		return false, err
	}
	klog.FromContext(ctx).V(2).Info("The API server's resources have been read")
	return true, nil
}

// sleep waits before the server is asked again. If it was heard by somebody while it was out of reach the wait is over.
// It is false if ctx has ended.
func (m *Mapper) sleep(ctx context.Context, wait time.Duration) bool {
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

// due returns how long to wait before the server is asked, and whether it need not be any more.
func (m *Mapper) due() (wait time.Duration, answered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait = time.Until(m.until)
	if m.flight != nil && m.flight.late != nil {
		wait = max(wait, limiter.BackoffBase) // it would be refused
	}
	return wait, m.answered
}

// keep writes what is known, if the store has something else, or has had it for long.
func (m *Mapper) keep(ctx context.Context) error {
	k := m.known.Load()
	m.mu.Lock()
	have := m.kept
	m.mu.Unlock()
	if m.store == nil || k.asOf.IsZero() || have.encoded == k.encoded && k.asOf.Sub(have.asOf).Abs() < rewriteAfter {
		// the clock may have been set back
		return nil
	}
	data, err := encodeDocument(k.encoded, k.asOf)
	if err == nil {
		err = m.store.PutDocument(ctx, documentName, data)
	}
	if err != nil && ctx.Err() != nil {
		return err // keepLast tries again
	}
	m.mu.Lock()
	first := err != nil && m.keepErr == nil
	if m.keepErr = err; err == nil {
		m.kept = kept{k.encoded, k.asOf}
	}
	m.mu.Unlock()
	if first && !isClosed(err) {
		klog.FromContext(ctx).Error(err, "The API server's resources cannot be stored; they are known to this process only")
	}
	return err
}

// look finds out whether the store still has what was kept. If not it is kept again.
func (m *Mapper) look(ctx context.Context) {
	if m.store == nil {
		return
	}
	data, err := m.store.Document(ctx, documentName)
	if err != nil && !errors.Is(err, entry.ErrDamaged) {
		return // nobody knows
	}
	if err == nil {
		_, _, err = decodeDocument(data)
	}
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.kept = kept{}
	}
}

// keepLast writes what a process that ends right after its start has learned.
func (m *Mapper) keepLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
	defer cancel()
	_ = m.keep(ctx) // it has logged what the user can do something about
}

func isClosed(err error) bool { return errors.Is(err, store.ErrClosed) }
