package informer

import (
	"context"
	"errors"
	"fmt"
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

// Repaired waits until a list has replaced the damaged records that err reports. It returns err if err does not report
// damaged records.
func (a audited) Repaired(ctx context.Context, err error) error {
	if !errors.Is(err, entry.ErrDamaged) || a.i.file == nil || a.i.file.Err() != nil {
		return err
	}
	for waited := false; !waited || a.i.sync.missing.Load(); waited = true {
		if err := base.Sleep(ctx, a.i.clock, time.Second); err != nil {
			return err
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

const (
	// mostComparedAtStart is the maximum size of a collection that is compared with the server's metadata when a run
	// begins. With 10,000 objects that takes half the time of a list. With more, waiting for a bookmark is faster.
	mostComparedAtStart = 10_000
	// mostComparedLater is the maximum size of a collection that is compared with the server's metadata after a lost
	// connection. The metadata of that many objects is about as large as the answers to the alternative: a probe and
	// five look-ups of single objects.
	mostComparedLater = 100
	// moreListed is how many more objects the server may list than are stored. With more, the comparison fails.
	moreListed = 1000
	// comparedWithin is the timeoutSeconds of the metadata request for a comparison. API servers use it for watches
	// only. No other list request sets it, so it identifies comparisons in an API server's audit log, which does not
	// record that a request is for metadata.
	comparedWithin = 1
	// idleWait bounds the wait until the events that were received before the connection was lost are stored.
	idleWait = 10 * time.Second
)

// comparer returns the function that compares the stored objects with a list of the server's metadata. It returns nil
// if Options.ListMetadata is nil: a comparison would list whole objects.
func (i *sharedInformer) comparer() func(ctx context.Context) (reflector.Comparison, error) {
	if i.o.ListMetadata == nil {
		return nil
	}
	stored := stores(i.Identity())
	return func(ctx context.Context) (reflector.Comparison, error) {
		held, refused, err := i.held(ctx)
		if err != nil {
			return reflector.Comparison{}, err
		}
		within := int64(comparedWithin)
		list, err := i.o.ListMetadata(ctx, metav1.ListOptions{Limit: int64(len(held) + moreListed), TimeoutSeconds: &within})
		if err != nil {
			return reflector.Comparison{}, err
		}
		if list.Continue != "" {
			return reflector.Comparison{}, fmt.Errorf("%w: it has more than %d objects, and %d are stored",
				reflector.ErrIncomparable, len(list.Items), len(held))
		}
		c := reflector.Comparison{ResourceVersion: list.ResourceVersion}
		for n := range list.Items {
			obj := &list.Items[n]
			if obj.UID == "" || obj.ResourceVersion == "" {
				return reflector.Comparison{}, fmt.Errorf("%w: its metadata lack a UID or a resourceVersion",
					reflector.ErrIncomparable)
			}
			if !stored(obj) {
				continue
			}
			listed := entry.RefOf(obj)
			have := held[listed.Key]
			delete(held, listed.Key)
			if listed != have && listed != refused[listed.Key] {
				c.Differences = append(c.Differences, reflector.Difference{Held: have, Listed: listed})
			}
		}
		for _, gone := range held {
			c.Differences = append(c.Differences, reflector.Difference{Held: gone})
		}
		return c, nil
	}
}

// held returns the references to the stored objects by key. refused are the references to left-out states of objects,
// by key. held first waits until the delivered events are stored.
func (i *sharedInformer) held(ctx context.Context) (held, refused map[string]entry.ObjectRef, err error) {
	idle, cancel := context.WithTimeout(ctx, idleWait)
	defer cancel()
	if err := i.queue.WaitIdle(idle); err != nil {
		return nil, nil, fmt.Errorf("%w: events wait to be stored: %w", reflector.ErrIncomparable, err)
	}
	info, err := i.store.Info(ctx)
	if err != nil {
		return nil, nil, err
	}
	refs, err := i.store.Refs(ctx, "", mostComparedAtStart+1)
	if err != nil {
		return nil, nil, err
	}
	if len(refs) > mostComparedAtStart || info.LeftOutMore {
		return nil, nil, fmt.Errorf("%w: too many objects are stored, or were left out", reflector.ErrIncomparable)
	}
	held, refused = make(map[string]entry.ObjectRef, len(refs)), map[string]entry.ObjectRef{}
	for _, ref := range refs {
		held[ref.Key] = ref
	}
	for _, l := range info.LeftOut {
		refused[l.Key] = l.ObjectRef
	}
	return held, refused, nil
}

// comparisonPays reports whether the collection is small enough to be compared with a list of the server's metadata.
func (i *sharedInformer) comparisonPays(ctx context.Context, starts bool) bool {
	most := mostComparedLater
	if starts {
		most = mostComparedAtStart
	}
	info, err := i.store.Info(ctx)
	return err == nil && info.Objects <= most && !info.LeftOutMore
}
