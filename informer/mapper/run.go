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
	// rewriteAfter is the age at which an unchanged document is written again, with the time of the last answer.
	rewriteAfter = 24 * time.Hour
	// keepAgain is when a failed write is retried. There is no hurry: the server can be asked again.
	keepAgain = 10 * time.Minute
	// lookEvery is how often Run checks that the store still has the document: a rebuild drops damaged ones.
	lookEvery = time.Hour
	// lastWait is how long the end of Run waits for the store's writer.
	lastWait = 5 * time.Second
)

// Run asks the server as soon as it can be reached, unless a miss has done so, and stores its discovery, then and after
// each change. It returns when ctx has ended and the last discovery is stored.
func (m *Mapper) Run(ctx context.Context) {
	select {
	case m.turn <- struct{}{}: // also if ctx has ended: there may be discovery to store
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

// contact asks the server until it has answered. It returns false if ctx ended first. It waits for a slot of the
// limiter that the store's informers share, so that only one of them tries while the link is down.
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

// logUnreachable logs from what the mapper answers while the server cannot be reached.
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

// awaitTurn waits for the time of the next request and asks the server, unless it has answered another caller
// meanwhile. The error is that of the request.
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

// sleep waits for the duration, or until any client of the limiter has heard from the server again. It returns false if
// ctx has ended.
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

// due returns how long to wait before the next request, and whether the server has answered already.
func (m *Mapper) due() (wait time.Duration, answered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait = time.Until(m.until)
	if m.flight != nil && m.flight.late != nil {
		wait = max(wait, limiter.BackoffBase) // it would be refused
	}
	return wait, m.answered
}

// keep writes the known discovery to the store, if the stored document differs or is older than rewriteAfter.
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

// look checks whether the store still has the document, and writes it again if not.
func (m *Mapper) look(ctx context.Context) {
	if m.store == nil {
		return
	}
	data, err := m.store.Document(ctx, documentName)
	if err != nil && !errors.Is(err, entry.ErrDamaged) {
		return // it cannot be told
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

// keepLast writes the known discovery at the end of Run, for a process that ends right after its start.
func (m *Mapper) keepLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
	defer cancel()
	_ = m.keep(ctx) // keep has logged the error
}

func isClosed(err error) bool { return errors.Is(err, store.ErrClosed) }
