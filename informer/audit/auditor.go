package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

// Errors of Auditor.Audit.
var (
	// ErrNotLive: there is no healthy watch. Wait until informer.Status has the Source Live.
	ErrNotLive = errors.New("the informer is not live")
	// ErrNotAuditable: the server's resourceVersions cannot be compared, so a lost event cannot be distinguished from
	// one that has not arrived yet.
	ErrNotAuditable = errors.New("the server's resourceVersions cannot be compared")
)

// Subject is the audited informer: its collection, and the watch that keeps it up to date.
type Subject interface {
	// Live reports whether a healthy watch is open, all of its events are stored, and no object is known to be missing.
	Live() bool
	// LastSyncResourceVersion is the newest resourceVersion that the watch has delivered.
	LastSyncResourceVersion() string
	// WaitIdle waits until all events that the watch has delivered so far are stored.
	WaitIdle(ctx context.Context) error
	// Refs returns the identities of up to limit stored objects whose keys are after the given one, in key order.
	Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error)
	// Verify verifies the file, unless the file was verified within the given time.
	Verify(ctx context.Context, within time.Duration) error
	// Repaired waits until the damage that err reports is repaired and lost objects are back. It returns err if err does
	// not report damage.
	Repaired(ctx context.Context, err error) error
	// Relist requests a list that compares whole objects. rewound means that the server's resourceVersion is older than
	// one that the watch has delivered.
	Relist(rewound bool)
}

// Options are the options of New. All are required except ListMetadata and Every.
type Options struct {
	// Description names the objects in errors and logs.
	Description string
	Subject     Subject
	// List makes a list request for the informer's collection. ListMetadata lists only metadata; nil if that is not
	// possible.
	List         func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error)
	ListMetadata func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	// Stores reports whether the informer stores a listed object.
	Stores func(obj runtime.Object) bool
	// Every is the maximum time between two audits of Run; the actual time is random, from half of Every to all of it.
	// Default 0: Run does not audit.
	Every time.Duration
	Clock clock.WithTicker
}

// Cause is how wrong or missing stored objects were noticed.
type Cause string

// The causes.
const (
	// CauseAudit: an audit found that stored objects differ from the server's; see informer.Informer.Audit.
	CauseAudit Cause = "Audit"
	// CauseDamaged: the file had lost stored objects, and a list restored the objects.
	CauseDamaged Cause = "Damaged"
)

// Causes returns every cause.
func Causes() []Cause { return []Cause{CauseAudit, CauseDamaged} }

// maxKeys is how many keys a Report names.
const maxKeys = 10

// Report is the result of an audit.
type Report struct {
	// Objects is the number of objects on the server. Differing is the number of objects, listed or stored, that still
	// differed when the watch had reached the server's state. Keys has the keys of the first ten of them.
	Objects, Differing int
	Keys               []string
	// Listed is true if the audit requested a list, because objects differed, and that list was stored.
	Listed bool
	Took   time.Duration
}

// Status describes the last audit.
type Status struct {
	Running bool
	// Ended is when the last audit ended; zero if none has. Report and Err are its result.
	Ended  time.Time
	Report Report
	Err    error
}

// Auditor audits one collection. Make one with New.
type Auditor struct {
	o   Options
	sem chan struct{} // sem is a semaphore of capacity 1; the running audit holds it

	mu        sync.Mutex      // mu guards the fields below
	run       context.Context // run is the context of the informer's run; nil before Start
	status    Status
	noted     noted
	damaged   bool          // damaged is true if the current list restores objects that the file has lost
	incidents map[Cause]int // incidents has the number of incidents so far, by cause
	// due has a channel of each audit that waits for the next list, and taking of each audit that waits for the current
	// list. The channels are closed when that list has been stored.
	due, taking []chan struct{}
}

// New returns an Auditor. It starts no goroutine.
func New(o Options) *Auditor { return &Auditor{o: o, sem: make(chan struct{}, 1)} }

// Start sets the context of the informer's run. Audits are possible from then on, and end when ctx ends.
func (a *Auditor) Start(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run = ctx
}

// Run audits periodically (Options.Every) until ctx ends. It returns at once if Options.Every is 0.
func (a *Auditor) Run(ctx context.Context) {
	if a.o.Every <= 0 {
		return
	}
	for base.Sleep(ctx, a.o.Clock, a.o.Every/2+rand.N(a.o.Every/2+1)) == nil {
		logger := klog.FromContext(ctx).WithValues("type", a.o.Description)
		report, err := a.Audit(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrNotLive):
			logger.V(2).Info("No audit: the informer is not live")
		case err != nil:
			logger.Error(err, "An audit was not completed", "objects", report.Objects)
		default:
			logger.V(2).Info("Audited", "objects", report.Objects, "differing", report.Differing, "took", report.Took)
		}
	}
}

// Audit compares everything once; see informer.Informer.Audit.
func (a *Auditor) Audit(ctx context.Context) (Report, error) {
	select {
	case a.sem <- struct{}{}:
		defer func() { <-a.sem }()
	case <-ctx.Done():
		return Report{}, fmt.Errorf("audit of %s: %w", a.o.Description, context.Cause(ctx))
	}
	begun := a.o.Clock.Now()
	a.begin()
	s := &scan{Auditor: a}
	err := s.run(ctx)
	if err != nil {
		err = fmt.Errorf("audit of %s: %w", a.o.Description, err)
	}
	s.report.Took = a.o.Clock.Since(begun)
	a.end(s.report, err)
	return s.report, err
}

func (a *Auditor) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Running = true
	a.noted.deleted = map[string]struct{}{}
}

func (a *Auditor) end(r Report, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noted.deleted = nil
	a.status = Status{Ended: a.o.Clock.Now(), Report: r, Err: err}
}

// Status returns the state of the last audit, and whether one is running.
func (a *Auditor) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Incidents returns, by cause, how often stored objects were wrong or missing: audits that found differences, and lists
// that restored lost objects.
func (a *Auditor) Incidents() map[Cause]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.incidents)
}

func (a *Auditor) incidentLocked(cause Cause) {
	if a.incidents == nil {
		a.incidents = map[Cause]int{}
	}
	a.incidents[cause]++
}

func (a *Auditor) running() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run
}

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
