package informer

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/reflector"
)

// Audit compares every stored object with the server's, by key, UID and resourceVersion: a proxy may have swallowed
// events, the server may have been rewound unnoticed by the rewind check, or the file may have lost objects. Objects
// that differ are compared again once the watch has reached the list's resourceVersion, because most differences are
// changes whose event has not come yet. If objects still differ, the reflector lists everything and compares bodies,
// and handlers are told of the differences: OnAdd, OnUpdate, or OnDelete with a cache.DeletedFinalStateUnknown. The
// report and the log name up to ten of the objects, and Status.Incidents counts the audit.
//
// Audit lists by Options.ListMetadata, or else whole objects, 500 at a time. It makes requests for a twentieth of the
// time at most, so 100,000 objects take some minutes. First it verifies the file, unless that was done within the hour,
// and repairs it if it is damaged.
//
// It fails with audit.ErrNotLive unless the informer runs and is live, and waits if another audit is running. Other
// errors: audit.ErrNotAuditable, those of requests that failed for an hour, and the end of ctx or of the run.
// Differences that were found before the error are repaired all the same.
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

// audited implements audit.Subject for an informer.
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

// Repaired waits until the loop has repaired the damage that err reports. It returns err if that is not damage.
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
