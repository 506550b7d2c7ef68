package audit

import (
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// noted holds the keys of objects whose differences an audit can explain. The Auditor's mu guards it.
type noted struct {
	// deleted has the keys whose delete was stored since the audit began; nil while no audit runs.
	deleted map[string]struct{}
	// skipped has the keys of objects whose newest state could not be stored. It is kept between audits.
	skipped map[string]struct{}
}

// maxNoted bounds deleted and skipped. A key beyond the bound may make an audit request an unnecessary list.
const maxNoted = 100_000

func note(keys map[string]struct{}, key string) {
	if len(keys) < maxNoted {
		keys[key] = struct{}{}
	}
}

// Skipped is called when an object's newest state could not be stored; audits then do not report the object.
func (a *Auditor) Skipped(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.noted.skipped == nil {
		a.noted.skipped = map[string]struct{}{}
	}
	note(a.noted.skipped, key)
}

// Changed is called with stored changes; audits then ignore deleted objects, and stop ignoring skipped ones.
func (a *Auditor) Changed(changes []entry.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		delete(a.noted.skipped, c.Key)
		if c.Type == cache.Deleted && a.noted.deleted != nil {
			note(a.noted.deleted, c.Key)
		}
	}
}

func (a *Auditor) isDeleted(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.noted.deleted[key]
	return ok
}

func (a *Auditor) isSkipped(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.noted.skipped[key]
	return ok
}

// awaitList returns a channel that is closed once a list that begins after this call has been stored.
func (a *Auditor) awaitList() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := make(chan struct{})
	a.due = append(a.due, c)
	return c
}

// ListBegun is called when a list begins. damaged means that the list restores objects that the file has lost. Earlier
// callers of awaitList wait for the end of this list.
func (a *Auditor) ListBegun(damaged bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.damaged = damaged
	a.taking, a.due = append(a.taking, a.due...), nil
}

// ListGivenUp is called when a list is aborted. Audits that wait for that list then wait for the next one.
func (a *Auditor) ListGivenUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, a.taking = append(a.taking, a.due...), nil
}

// ListEnded is called when a list is stored.
func (a *Auditor) ListEnded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.damaged {
		a.incidentLocked(CauseDamaged)
	}
	for _, c := range a.taking {
		close(c)
	}
	a.taking, a.damaged = nil, false
}
