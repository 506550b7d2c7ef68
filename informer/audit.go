package informer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// Errors of Informer.Audit.
var (
	// ErrNotLive: there is no healthy watch. Wait until Status.Source is Live.
	ErrNotLive = errors.New("the informer is not live")
	// ErrNotAuditable: the server's resourceVersions can not be compared, so nobody can tell what is lost from what is under way.
	ErrNotAuditable = errors.New("the server's resourceVersions can not be compared")
)

const (
	// auditPage is how many identities are asked for at a time.
	auditPage = 500
	// Between two pages an audit waits for auditRest times as long as the last one took: so it takes a twentieth of the link and of an API
	// server's core at most. But auditPause at least, and auditPauseMax at most.
	auditRest     = 19
	auditPause    = time.Second
	auditPauseMax = time.Minute
	// auditTimeout bounds one request.
	auditTimeout = 90 * time.Second
	// auditRetry is how long a page that fails is asked for again.
	auditRetry = time.Hour
	// auditBehind is how long what differs may be only under way.
	auditBehind = 5 * time.Second
	// maxSuspects is how many objects may wait to be examined, or have been found to differ. Where there are more everything is listed.
	maxSuspects = 200
	// scrubEvery is how often audits have the file verified.
	scrubEvery = time.Hour
)

// AuditReport is what an audit has done.
type AuditReport struct {
	// Objects is how many the server had, Suspects how many of them, or of those that are stored, have been looked at one by one.
	Objects, Suspects int
	// Findings are the first 100 objects that were repaired, More the number of the others. They are in Status.Incidents too.
	Findings []Finding
	More     int
	// Listed: so many differed that everything was listed, or a list was made meanwhile for another reason, which repairs as well and has no findings.
	Listed bool
	Took   time.Duration
}

// AuditStatus is the newest audit.
type AuditStatus struct {
	Running bool
	// Ended is when the last one ended; zero if none has. Report and Err are what came of it.
	Ended  time.Time
	Report AuditReport
	Err    error
}

// audits are those of an informer: one at a time.
type audits struct {
	turn chan struct{} // has a token while one runs

	mu     sync.Mutex
	run    context.Context // of the informer; set before it can be live; guarded by mu
	status AuditStatus     // guarded by mu
	// deleted are the keys of which a delete has been stored since the audit began; nil while there is none.
	deleted map[string]struct{} // guarded by mu
}

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

// maxDeleted bounds what an audit remembers of deletes. What it does not is looked up.
const maxDeleted = 100_000

// sawDelete is told of each delete.
func (a *audits) sawDelete(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deleted != nil && len(a.deleted) < maxDeleted {
		a.deleted[key] = struct{}{}
	}
}

func (a *audits) isDeleted(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.deleted[key]
	return ok
}

func (a *audits) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Running, a.deleted = true, map[string]struct{}{}
}

func (a *audits) end(at time.Time, r AuditReport, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.deleted = AuditStatus{Ended: at, Report: r, Err: err}, nil
}

func (a *audits) now() AuditStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// Audit compares the identity, UID and resourceVersion, of every stored object with the server's, and repairs what differs: what no event has told, since a
// proxy has swallowed it, the server was rewound in a way that no guard sees, or the file has lost it. An object that differs is looked up, and put right at a place in the
// stream where the answer holds, so nothing is a finding that is only under way; where there are more than 200, everything is listed. Handlers are told of the
// difference: OnAdd, OnUpdate, or OnDelete with a cache.DeletedFinalStateUnknown. What was repaired is an Incident in Status.
//
// The server is read by Options.ListMetadata, or else whole objects, 500 identities at a time, at a gentle rate: a twentieth of the time at most, so 100,000 objects take some minutes. The
// file is verified before, unless that was done within the hour, and repaired if it is damaged.
//
// It can be called while the informer runs and is live (ErrNotLive), and waits for its turn if another audit is under way. Other errors: ErrNotAuditable, those of
// the requests that went on for an hour, and the end of ctx or of the run. What was found before is repaired all the same.
func (i *Informer) Audit(ctx context.Context) (AuditReport, error) {
	select {
	case i.audits.turn <- struct{}{}:
		defer func() { <-i.audits.turn }()
	case <-ctx.Done():
		return AuditReport{}, fmt.Errorf("audit of %s: %w", i.o.ObjectDescription, context.Cause(ctx))
	}
	i.audits.begin()
	begun, before := i.clock.Now(), i.incidents.count()
	a := &audit{Informer: i, r: i.currentReflector(), lister: refLister{Informer: i}}
	err := a.run(ctx)
	if err != nil {
		err = fmt.Errorf("audit of %s: %w", i.o.ObjectDescription, err)
	}
	f := i.incidents.since(before)
	a.report.Findings, a.report.More, a.report.Took = f.first, f.more, i.clock.Since(begun)
	i.audits.end(i.clock.Now(), a.report, err)
	return a.report, err
}

// audit is one of them.
type audit struct {
	*Informer
	r      *reflector.Reflector
	lister refLister
	ex     *examination
	report AuditReport
}

// run scans, and waits for what it has asked. It ends with the run of the informer.
func (a *audit) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if a.r == nil || a.Status().Source != Live {
		return ErrNotLive
	}
	running := a.audits.running()
	defer context.AfterFunc(running, func() { cancel(errStopped) })()
	ctx = klog.NewContext(ctx, a.logger(running))
	if err := a.verifyFile(ctx); err != nil {
		return err
	}
	a.ex = a.examinations.begin(nil)
	err := a.scan(ctx)
	a.examinations.seal(a.ex)
	if err == nil {
		select {
		case <-a.ex.done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	f, relisted := a.examinations.drop(a.ex)
	a.report.Listed = relisted
	a.noteIncident(ctx, CauseAudit, "", f)
	return err
}

// verifyFile has the file looked through, for what no read meets: a record that is not there. What is found the pump repairs, as if a reader had met it.
func (a *audit) verifyFile(ctx context.Context) error {
	if a.scrub == nil || time.Since(a.scrubbed()) < scrubEvery {
		return nil
	}
	return a.awaitRepair(ctx, a.scrub(ctx))
}

// awaitRepair waits until the pump has repaired the file, if err says that this is what it takes.
func (a *audit) awaitRepair(ctx context.Context, err error) error {
	for err != nil {
		if !needsRebuild(err) || a.failure == nil {
			return err
		}
		if err := sleep(ctx, a.clock, auditPause); err != nil {
			return err
		}
		err = a.failure.Err()
	}
	return nil
}

// auditLoop audits every now and then.
func (i *Informer) auditLoop(ctx context.Context) {
	every := i.o.AuditEvery
	if every <= 0 {
		return
	}
	for sleep(ctx, i.clock, every/2+rand.N(every/2+1)) == nil {
		report, err := i.Audit(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrNotLive):
			klog.FromContext(ctx).V(2).Info("No audit: the informer is not live", "type", i.o.ObjectDescription)
		case err != nil:
			klog.FromContext(ctx).Error(err, "An audit was not completed", "objects", report.Objects)
		default:
			klog.FromContext(ctx).V(2).Info("Audited", "type", i.o.ObjectDescription, "objects", report.Objects, "suspects", report.Suspects,
				"findings", len(report.Findings)+report.More, "took", report.Took)
		}
	}
}

// relistAll lists everything, since too much differs, and waits for that.
func (a *audit) relistAll(reason reflector.Reason) {
	a.examinations.awaitList(a.ex)
	a.r.Relist(reason)
}

// comparableRVs reports whether two resourceVersions can be compared.
func comparableRVs(x, y string) bool {
	_, err := resourceversion.CompareResourceVersion(x, y)
	return err == nil
}

// refsAfter returns the stored identities after a key, up to another one; empty is the end.
func (a *audit) refsAfter(ctx context.Context, after, to string) (refs []store.ObjectRef, err error) {
	for {
		page, err := a.store.Refs(ctx, after, auditPage)
		if err != nil {
			if err := a.awaitRepair(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		for _, ref := range page {
			if to != "" && ref.Key > to {
				return refs, nil
			}
			refs = append(refs, ref)
		}
		if len(page) < auditPage {
			return refs, nil
		}
		after = page[len(page)-1].Key
	}
}

// AuditTime is how long an audit of so many objects takes at least.
func AuditTime(objects int) time.Duration {
	return time.Duration(max(0, (objects-1)/auditPage)) * auditPause
}
