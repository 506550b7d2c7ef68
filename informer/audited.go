package informer

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/reflector"
)

// Audit compares the identity, UID and resourceVersion, of every stored object with the server's: a proxy may have
// swallowed events, the server may have been rewound in a way that no guard sees, the file may have lost something.
// What differs is compared again once the watch has come to the server's answer, since most of it is only under way.
// If something still differs, everything is listed, bodies are compared, and handlers are told of the differences:
// OnAdd, OnUpdate, or OnDelete with a cache.DeletedFinalStateUnknown. What was repaired is an audit.Incident in
// Status.
//
// The server is read by Options.ListMetadata, or else whole objects, 500 identities at a time, at a gentle rate: a
// twentieth of the time at most, so 100,000 objects take some minutes. The file is verified before, unless that was
// done within the hour, and repaired if it is damaged.
//
// It can be called while the informer runs and is live (audit.ErrNotLive), and waits for its turn if another audit is
// under way. Other errors: audit.ErrNotAuditable, those of the requests that went on for an hour, and the end of ctx
// or of the run. What was found before is repaired all the same.
func (i *Informer) Audit(ctx context.Context) (audit.Report, error) { return i.auditor.Audit(ctx) }

func (i *Informer) newAuditor() *audit.Auditor {
	id := i.Identity()
	admits, shards := admit(id), id.Shards()
	return audit.New(audit.Options{
		Description: i.o.ObjectDescription, Subject: audited{i}, Every: i.o.AuditEvery, Clock: i.clock,
		ListMetadata: i.o.ListMetadata,
		List: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return cache.ToListerWatcherWithContext(i.lw).ListWithContext(ctx, o)
		},
		Stores: func(obj runtime.Object) bool {
			ours, err := shards.Matches(obj) // a server may send the objects of other shards
			return admits(obj) == nil && (ours || err != nil)
		},
	})
}

// sameness returns a reflector.Options.Same, or nil if nobody waits for the answer, or it would cost whole objects.
func (i *Informer) sameness() func(ctx context.Context) (string, bool, error) {
	if i.o.SyncPolicy != Resumed || i.o.ListMetadata == nil {
		return nil
	}
	return i.auditor.Same
}

// audited is what an audit sees of an informer.
type audited struct{ i *Informer }

var _ audit.Subject = audited{}

func (a audited) Live() bool {
	a.i.reviewSource()
	now, _, _ := a.i.sources.status()
	return now == Live
}

func (a audited) LastSyncResourceVersion() string { return a.i.LastSyncResourceVersion() }

func (a audited) WaitIdle(ctx context.Context) error { return a.i.queue.WaitIdle(ctx) }

func (a audited) Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error) {
	return a.i.store.Refs(ctx, after, limit)
}

func (a audited) Verify(ctx context.Context, within time.Duration) error {
	file := a.i.File()
	if file == nil || time.Since(file.Scrubbed()) < within {
		return nil
	}
	return file.Scrub(ctx)
}

// Repaired waits for the loop, which the store tells of damage whoever meets it.
func (a audited) Repaired(ctx context.Context, err error) error {
	for err != nil {
		if !needsRebuild(err) || a.i.file == nil {
			return err
		}
		if err := patient.Sleep(ctx, a.i.clock, time.Second); err != nil {
			return err
		}
		err = a.i.file.Err()
		for err == nil && a.i.sync.lacking.Load() {
			if err := patient.Sleep(ctx, a.i.clock, time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a audited) Relist(rewound bool) {
	reason := reflector.ReasonAudit
	if rewound {
		reason = reflector.ReasonAhead
	}
	a.i.currentReflector().Relist(reason)
}

func (a audited) Contacted() { a.i.contact() }

// auditedList is what an audit has to know of a list that is made for that reason.
func auditedList(reason reflector.Reason, since string) audit.List {
	l := audit.List{Reason: string(reason), Since: since}
	switch reason {
	case reflector.ReasonAudit:
		l.Cause = audit.CauseAudit
	case reflector.ReasonDamaged:
		l.Cause = audit.CauseDamaged
	}
	return l
}
