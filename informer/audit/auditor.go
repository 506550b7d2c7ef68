package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/patient"
)

// Errors of Auditor.Audit.
var (
	// ErrNotLive: there is no healthy watch. Wait until Status.Source of the informer is Live.
	ErrNotLive = errors.New("the informer is not live")
	// ErrNotAuditable: the server's resourceVersions cannot be compared, so nobody can tell what is lost from what is
	// under way.
	ErrNotAuditable = errors.New("the server's resourceVersions cannot be compared")
)

// Subject is what is audited: the collection of an informer, and the stream that keeps it up to date.
type Subject interface {
	// Live reports whether a healthy watch is open, everything it brought is stored, and nothing is known to be missing.
	Live() bool
	// LastSyncResourceVersion is the newest resourceVersion that the stream has delivered.
	LastSyncResourceVersion() string
	// WaitIdle waits until what the stream has delivered by now is stored.
	WaitIdle(ctx context.Context) error
	// Refs returns the identities of up to limit stored objects whose keys are after the given one, in key order.
	Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error)
	// Verify verifies the file, unless that has found nothing wrong within the given time.
	Verify(ctx context.Context, within time.Duration) error
	// Repaired waits until the damage that err tells of is repaired, and what was lost is back. It returns err if err
	// does not tell of damage.
	Repaired(ctx context.Context, err error) error
	// Relist asks for a list that compares bodies. rewound: because the server is at an older resourceVersion than the
	// stream was.
	Relist(rewound bool)
	// Contacted is told that the server has answered.
	Contacted()
}

// Options are the options of New. All are required but ListMetadata and Every.
type Options struct {
	// Description of the objects, for errors and logs.
	Description string
	Subject     Subject
	// List lists what the informer lists. ListMetadata does so by metadata; nil if that is not possible.
	List         func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error)
	ListMetadata func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	// Stores reports whether a listed object is one that the informer stores.
	Stores func(obj runtime.Object) bool
	// Every is the time between two audits of Run; each time a random half to whole of it. 0: Run makes none.
	Every time.Duration
	Clock clock.WithTicker
}

// Report is what an audit has done.
type Report struct {
	// Objects is how many the server had; Suspects is how many of them, or of those that are stored, differed although
	// the stream had come to the server's state.
	Objects, Suspects int
	// Findings are the first 100 objects that were repaired, More the number of the others. They are in Status.Incidents
	// of the informer too.
	Findings []Finding
	More     int
	// Listed: everything was listed, since something differed.
	Listed bool
	Took   time.Duration
}

// Status is the newest audit.
type Status struct {
	Running bool
	// Ended is when the last one ended; zero if none has. Report and Err are what came of it.
	Ended  time.Time
	Report Report
	Err    error
}

// Auditor audits one collection. Make one with New.
type Auditor struct {
	o    Options
	turn chan struct{} // has a token while an audit runs

	mu        sync.Mutex
	run       context.Context // of the informer; nil before Start; guarded by mu, like all below
	status    Status
	noted     noted
	list      foundByList
	incidents incidents
	// due are closed when a list has been stored that has not begun yet, taking those that the present one closes.
	due, taking []chan struct{}
}

// New returns an Auditor that has started nothing.
func New(o Options) *Auditor { return &Auditor{o: o, turn: make(chan struct{}, 1)} }

// Start says that the informer runs in ctx: audits are possible from now on, and end with it.
func (a *Auditor) Start(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run = ctx
}

// Run audits every now and then, until ctx ends.
func (a *Auditor) Run(ctx context.Context) {
	if a.o.Every <= 0 {
		return
	}
	for patient.Sleep(ctx, a.o.Clock, a.o.Every/2+rand.N(a.o.Every/2+1)) == nil {
		logger := klog.FromContext(ctx).WithValues("type", a.o.Description)
		report, err := a.Audit(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrNotLive):
			logger.V(2).Info("No audit: the informer is not live")
		case err != nil:
			logger.Error(err, "An audit was not completed", "objects", report.Objects)
		default:
			logger.V(2).Info("Audited", "objects", report.Objects, "suspects", report.Suspects,
				"findings", len(report.Findings)+report.More, "took", report.Took)
		}
	}
}

// Audit compares everything once; see informer.Informer.Audit.
func (a *Auditor) Audit(ctx context.Context) (Report, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return Report{}, fmt.Errorf("audit of %s: %w", a.o.Description, context.Cause(ctx))
	}
	begun, before := a.o.Clock.Now(), a.begin()
	s := &scan{Auditor: a}
	err := s.run(ctx)
	if err != nil {
		err = fmt.Errorf("audit of %s: %w", a.o.Description, err)
	}
	s.report.Took = a.o.Clock.Since(begun)
	return a.end(s.report, before, err), err
}

// begin returns how many incidents there were.
func (a *Auditor) begin() (incidents int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Running = true
	a.noted.begin()
	return a.incidents.count()
}

// end adds what was found since begin to the report.
func (a *Auditor) end(r Report, before int, err error) Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.incidents.since(before)
	r.Findings, r.More = f.first, f.more
	a.noted.end()
	a.status = Status{Ended: a.o.Clock.Now(), Report: r, Err: err}
	return r
}

// Status returns the newest audit.
func (a *Auditor) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Incidents returns the newest ten, the newest first, and how many there were of each cause.
func (a *Auditor) Incidents() (newest []Incident, totals map[Cause]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.incidents.newest), maps.Clone(a.incidents.totals)
}

func (a *Auditor) running() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run
}
