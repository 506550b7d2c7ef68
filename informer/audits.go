package informer

import (
	"context"
	"sync"
	"time"
)

// audits are those of an informer, one at a time, and what the pump notes for them.
type audits struct {
	turn chan struct{} // has a token while one runs

	mu     sync.Mutex
	run    context.Context // of the informer; set before it can be live; guarded by mu
	status AuditStatus     // guarded by mu
	// deleted are the keys of which a delete has been stored since the audit began, found those that it has found to
	// differ; nil while there is none.
	deleted, found map[string]struct{} // guarded by mu
	// skipped are the keys of which the newest state could not be stored.
	skipped map[string]struct{} // guarded by mu
	// due are closed when a list has been stored that has not begun yet, taking those that the present one closes.
	due, taking []chan struct{} // guarded by mu
}

// maxNoted bounds each set of keys. What is not noted of a delete, or of what could not be stored, is listed in vain.
const maxNoted = 100_000

// start says that the informer runs in ctx.
func (a *audits) start(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run = ctx
}

func (a *audits) running() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run
}

func (a *audits) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Running, a.deleted, a.found = true, map[string]struct{}{}, map[string]struct{}{}
}

func (a *audits) end(at time.Time, r AuditReport, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.deleted, a.found = AuditStatus{Ended: at, Report: r, Err: err}, nil, nil
}

func (a *audits) now() AuditStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// sawDelete is told of each delete.
func (a *audits) sawDelete(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.skipped, key)
	if a.deleted != nil && len(a.deleted) < maxNoted {
		a.deleted[key] = struct{}{}
	}
}

func (a *audits) isDeleted(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.deleted[key]
	return ok
}

// sawSkipped is told of each object whose newest state could not be stored, so that audits do not miss it.
func (a *audits) sawSkipped(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.skipped == nil {
		a.skipped = map[string]struct{}{}
	}
	if len(a.skipped) < maxNoted {
		a.skipped[key] = struct{}{}
	}
}

// sawStored is told of each object that was stored.
func (a *audits) sawStored(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.skipped, key)
}

func (a *audits) isSkipped(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.skipped[key]
	return ok
}

// suspect notes the keys of objects that differ.
func (a *audits) suspect(keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range keys {
		a.found[key] = struct{}{}
	}
}

// suspects reports whether the audit has found that the object differs.
func (a *audits) suspects(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.found[key]
	return ok
}

// awaitList returns a channel that is closed when a list has been stored that begins after this.
func (a *audits) awaitList() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := make(chan struct{})
	a.due = append(a.due, c)
	return c
}

func (a *audits) listBegun() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taking, a.due = append(a.taking, a.due...), nil
}

func (a *audits) listGivenUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, a.taking = append(a.due, a.taking...), nil
}

func (a *audits) listEnded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.taking {
		close(c)
	}
	a.taking = nil
}
