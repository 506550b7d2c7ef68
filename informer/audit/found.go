package audit

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// noted holds the keys that the running audit has to know about. The Auditor's mu guards it.
type noted struct {
	// deleted has the keys whose delete was stored since the audit began. suspects has the keys of objects that the audit
	// has found to differ. Both are nil while no audit runs.
	deleted, suspects map[string]struct{}
	// skipped has the keys of objects whose newest state could not be stored. It is kept between audits.
	skipped map[string]struct{}
}

// maxNoted bounds deleted and skipped. A key beyond the bound may make an audit request a list that is not needed.
const maxNoted = 100_000

func (n *noted) begin() { n.deleted, n.suspects = map[string]struct{}{}, map[string]struct{}{} }
func (n *noted) end()   { n.deleted, n.suspects = nil, nil }

func note(keys map[string]struct{}, key string) {
	if len(keys) < maxNoted {
		keys[key] = struct{}{}
	}
}

// Skipped records that the newest state of an object could not be stored, so that audits do not report it as missing.
func (a *Auditor) Skipped(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.noted.skipped == nil {
		a.noted.skipped = map[string]struct{}{}
	}
	note(a.noted.skipped, key)
}

// Changed records changes that have been stored.
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

// suspect adds keys of objects that differ from the server's to the suspects of the running audit.
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

// List describes a list that replaces the stored objects.
type List struct {
	// Reason for the list, copied to Incident.Reason.
	Reason string
	// Cause decides which differences between the list and the stored objects are findings, and not just events that have
	// not arrived yet. With CauseDamaged: all that are not newer than Since. Otherwise: the suspects of an audit. With
	// CauseAudit, for a list that an audit requested, also bodies that differ at the same resourceVersion.
	Cause Cause
	// Since is the stored resourceVersion when the list began.
	Since string
}

// foundByList is the list that is being received, and its findings so far.
type foundByList struct {
	List
	findings
}

// awaitList returns a channel that is closed once a list that begins after this call has been stored.
func (a *Auditor) awaitList() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := make(chan struct{})
	a.due = append(a.due, c)
	return c
}

// ListBegun records that a list has begun. Whoever called awaitList before waits for the end of this list.
func (a *Auditor) ListBegun(l List) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = foundByList{List: l}
	a.taking, a.due = append(a.taking, a.due...), nil
}

// ListGivenUp records that the list was aborted. Whoever waits for it waits for the next list instead.
func (a *Auditor) ListGivenUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, a.taking = append(a.due, a.taking...), nil
}

// Listed records the findings among the changes that a list has made. It is called before Changed with these changes.
func (a *Auditor) Listed(changes []entry.Change) {
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

// ListEnded records that the list is stored. If there are findings it adds an Incident and logs it. The caller holds no
// lock.
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

// findingOf returns the finding that a change made by a list amounts to. differs is false if UID and resourceVersion
// are the same, so that only the body has changed.
func findingOf(c entry.Change) (f Finding, differs bool) {
	f = Finding{Key: c.Key, Kind: Differs, Stored: c.OldRef, Server: refOfObject(c.New)}
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
