package informer

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/reflector"
)

// Audit compares the key, UID and resourceVersion of every stored object with the server's. It finds events that a
// proxy has dropped, a rewound server that the rewind check missed, and objects that the file has lost. Objects that
// differ are compared again once the watch has reached the list's resourceVersion, because most differences are changes
// whose event has not arrived yet. If objects still differ, the reflector lists everything and compares whole objects,
// and handlers get the differences: OnAdd, OnUpdate, or OnDelete with a cache.DeletedFinalStateUnknown. A content that
// changes while the object's resourceVersion stays the same is not noticed; see Options.AuditEvery. The report and the
// log name up to ten of the objects, and Status.Incidents counts the audit.
//
// Audit lists with Options.ListMetadata. Without it, Audit lists whole objects, 500 at a time. Requests take at most a
// twentieth of the time, so 100,000 objects take some minutes. Before the comparison Audit verifies the file, unless it
// was verified within the last hour, and repairs it if it is damaged.
//
// Audit fails with audit.ErrNotLive unless the informer runs and is live. It waits if another audit is running. Other
// errors: audit.ErrNotAuditable, errors of requests that have failed for an hour, and the end of ctx or of the run.
// Differences that were found before an error are still repaired.
func (i *Informer) Audit(ctx context.Context) (audit.Report, error) {
	return i.shared.auditor.Audit(ctx)
}

func (i *sharedInformer) newAuditor() *audit.Auditor {
	return audit.New(audit.Options{
		Description: i.o.ObjectDescription, Subject: audited{i}, Every: i.o.AuditEvery, Clock: i.clock,
		ListMetadata: i.o.ListMetadata,
		List: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return i.source.ListWithContext(ctx, o)
		},
		Stores: stores(i.Identity()),
	})
}

type audited struct{ i *sharedInformer }

var _ audit.Subject = audited{}

func (a audited) Live() bool {
	return slices.ContainsFunc(a.i.attachedNow(), func(member *Informer) bool {
		member.reviewSource()
		now, _, _ := member.sources.status()
		return now == Live
	})
}

func (a audited) LastSyncResourceVersion() string { return a.i.lastSyncResourceVersion() }

func (a audited) WaitIdle(ctx context.Context) error { return a.i.queue.WaitIdle(ctx) }

func (a audited) Refs(ctx context.Context, after string, limit int) ([]entry.ObjectRef, error) {
	return a.i.store.Refs(ctx, after, limit)
}

func (a audited) Verify(ctx context.Context, within time.Duration) error {
	file := a.i.o.Store
	if a.i.memoryOnly != "" || time.Since(file.Scrubbed()) < within {
		return nil
	}
	return file.Scrub(ctx)
}

// Repaired waits until the process loop has repaired the damage of the file that err reports. It returns err if err
// does not report damage.
func (a audited) Repaired(ctx context.Context, err error) error {
	for err != nil {
		if !needsRebuild(err) || a.i.file == nil {
			return err
		}
		if err := base.Sleep(ctx, a.i.clock, time.Second); err != nil {
			return err
		}
		err = a.i.file.Err()
		for err == nil && a.i.sync.missing.Load() {
			if err := base.Sleep(ctx, a.i.clock, time.Second); err != nil {
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
