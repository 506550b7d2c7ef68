package audit

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// noted is what the writer of the store has told, for the audit that runs. The Auditor's mu guards it.
type noted struct {
	// deleted are the keys of which a delete has been stored since the audit began, suspects those that it has found to
	// differ; nil while there is none.
	deleted, suspects map[string]struct{}
	// skipped are the keys of which the newest state could not be stored.
	skipped map[string]struct{}
}

// maxNoted bounds each set of keys. Where a delete, or what could not be stored, is not noted, a list is made in vain.
const maxNoted = 100_000

func (n *noted) begin() { n.deleted, n.suspects = map[string]struct{}{}, map[string]struct{}{} }
func (n *noted) end()   { n.deleted, n.suspects = nil, nil }

func note(keys map[string]struct{}, key string) {
	if len(keys) < maxNoted {
		keys[key] = struct{}{}
	}
}

// Skipped is told of each object whose newest state could not be stored, so that audits do not miss it.
func (a *Auditor) Skipped(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.noted.skipped == nil {
		a.noted.skipped = map[string]struct{}{}
	}
	note(a.noted.skipped, key)
}

// Changed is told of what has been stored.
func (a *Auditor) Changed(changes []store.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		delete(a.noted.skipped, c.Key)
		if c.Type == cache.Deleted && a.noted.deleted != nil {
			note(a.noted.deleted, c.Key)
		}
	}
}

// suspect notes the keys of objects that differ.
func (a *Auditor) suspect(keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range keys {
		a.noted.suspects[key] = struct{}{}
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

// List is a list that replaces what is stored.
type List struct {
	// Reason why it is made, for Incident.
	Reason string
	// Cause says which of the differences that the list shows were wrong, and not only under way. With CauseDamaged it is
	// all that are no newer than Since. Otherwise it is what an audit suspects, and with CauseAudit, where an audit has
	// asked for the list, bodies that differ under one resourceVersion.
	Cause Cause
	// Since is the resourceVersion that was stored when the list began.
	Since string
}

// foundByList is what the list that is being taken in has found to be wrong.
type foundByList struct {
	List
	findings
}

// awaitList returns a channel that is closed when a list has been stored that begins after this.
func (a *Auditor) awaitList() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := make(chan struct{})
	a.due = append(a.due, c)
	return c
}

// ListBegun is told that a list is being taken in.
func (a *Auditor) ListBegun(l List) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = foundByList{List: l}
	a.taking, a.due = append(a.taking, a.due...), nil
}

// ListGivenUp is told that what the list has not shown yet it will not show.
func (a *Auditor) ListGivenUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, a.taking = append(a.due, a.taking...), nil
}

// Listed is told what the list has changed, before Changed is.
func (a *Auditor) Listed(changes []store.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := &a.list
	for _, c := range changes {
		found, differs := findingOf(c)
		_, suspect := a.noted.suspects[c.Key]
		switch f.Cause {
		case CauseDamaged:
			if !differs || entry.NewerRV(found.Server.ResourceVersion, f.Since) {
				continue
			}
		case CauseAudit:
			if differs && !suspect {
				continue
			}
		default:
			if !differs || !suspect {
				continue
			}
		}
		f.add(found)
	}
}

// ListEnded is told that the list is stored. What it has found is an incident. The caller holds no lock.
func (a *Auditor) ListEnded(ctx context.Context) {
	a.mu.Lock()
	f := a.list
	a.list = foundByList{}
	if f.Cause == "" {
		f.Cause = CauseAudit
	}
	if !f.none() {
		a.incidents.add(Incident{At: a.o.Clock.Now(), Cause: f.Cause, Reason: f.Reason, Findings: f.first, More: f.more})
	}
	taking := a.taking
	a.taking = nil
	a.mu.Unlock()
	for _, c := range taking {
		close(c)
	}
	if f.none() {
		return
	}
	lines := make([]string, len(f.first))
	for n, found := range f.first {
		lines[n] = found.String()
	}
	klog.FromContext(ctx).Info("Stored objects were not what the server has, and have been repaired",
		"type", a.o.Description, "cause", f.Cause, "list", f.Reason, "objects", len(f.first)+f.more, "findings", lines)
}

// findingOf says what a change by a list shows to have been wrong. differs is false if only the body has changed.
func findingOf(c store.Change) (f Finding, differs bool) {
	f = Finding{Key: c.Key, Kind: Differs, Stored: refOfObject(c.Old), Server: refOfObject(c.New)}
	switch {
	case c.Type == cache.Deleted:
		f.Kind, f.Server = Ghost, entry.ObjectRef{}
	case c.Type == cache.Added:
		f.Kind = Missing
	case f.Stored.UID == f.Server.UID && f.Stored.ResourceVersion == f.Server.ResourceVersion:
		return f, false
	case f.Stored.UID != f.Server.UID && f.Stored.UID != "":
		f.Kind = OtherObject
	}
	return f, true
}

func refOfObject(obj runtime.Object) entry.ObjectRef {
	if obj == nil {
		return entry.ObjectRef{}
	}
	acc, err := meta.Accessor(obj)
	if err != nil {
		return entry.ObjectRef{}
	}
	return entry.RefOf(acc)
}
