package informer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
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
	// auditStep is how often an audit looks whether the stream has come to a page, and auditBehind how long that may take:
	// bookmarks come once a minute, but not every server sends them.
	auditStep   = time.Second / 4
	auditBehind = 3 * time.Minute
	// maxSuspects is how many objects may have been found to differ before the audit looks no further.
	maxSuspects = 200
	// scrubEvery is how often audits have the file verified.
	scrubEvery = time.Hour
)

// AuditReport is what an audit has done.
type AuditReport struct {
	// Objects is how many the server had; Suspects is how many of them, or of those that are stored, differed although the
	// stream had come to the server's state.
	Objects, Suspects int
	// Findings are the first 100 objects that were repaired, More the number of the others. They are in Status.Incidents too.
	Findings []Finding
	More     int
	// Listed: everything was listed, since something differed.
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

// Audit compares the identity, UID and resourceVersion, of every stored object with the server's: a proxy may have
// swallowed events, the server may have been rewound in a way that no guard sees, the file may have lost something. What
// differs is compared again once the watch has come to the server's answer, since most of it is only under way. If
// something still differs, everything is listed, bodies are compared, and handlers are told of the differences: OnAdd,
// OnUpdate, or OnDelete with a cache.DeletedFinalStateUnknown. What was repaired is an Incident in Status.
//
// The server is read by Options.ListMetadata, or else whole objects, 500 identities at a time, at a gentle rate: a
// twentieth of the time at most, so 100,000 objects take some minutes. The file is verified before, unless that was done
// within the hour, and repaired if it is damaged.
//
// It can be called while the informer runs and is live (ErrNotLive), and waits for its turn if another audit is under
// way. Other errors: ErrNotAuditable, those of the requests that went on for an hour, and the end of ctx or of the run.
// What was found before is repaired all the same.
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
	report AuditReport
}

// run scans, and waits for the list that it asks for. It ends with the run of the informer.
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
	reason, err := a.scan(ctx)
	if reason == "" {
		return err
	}
	listed := a.audits.awaitList()
	a.r.Relist(reason)
	select {
	case <-listed:
		a.report.Listed = true
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// verifyFile has the file looked through, for what no read meets: a record that is not there. What is found the pump repairs, as if a reader had met it.
func (a *audit) verifyFile(ctx context.Context) error {
	if a.scrub == nil || time.Since(a.scrubbed()) < scrubEvery {
		return nil
	}
	return a.awaitRepair(ctx, a.scrub(ctx))
}

// awaitRepair waits until the pump has repaired the file, and what was lost is back, if err says that this is what it takes.
func (a *audit) awaitRepair(ctx context.Context, err error) error {
	for err != nil {
		if !needsRebuild(err) || a.failure == nil {
			return err
		}
		if err := sleep(ctx, a.clock, auditPause); err != nil {
			return err
		}
		err = a.failure.Err()
		for err == nil && a.lacking.Load() {
			if err := sleep(ctx, a.clock, auditPause); err != nil {
				return err
			}
		}
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

// comparableRVs reports whether two resourceVersions can be compared.
func comparableRVs(x, y string) bool {
	_, err := resourceversion.CompareResourceVersion(x, y)
	return err == nil
}

// refsAfter returns the stored identities after a key, up to another one; empty is the end.
func (a *audit) refsAfter(ctx context.Context, after, to string) (refs []entry.ObjectRef, err error) {
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
