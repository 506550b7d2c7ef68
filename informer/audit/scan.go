package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

const (
	pageSize = 500
	// Between two pages an audit waits for rest times the duration of the last page. So it uses at most a twentieth of
	// the connection and of an API server's core. The wait is at least pause and at most pauseMax.
	rest     = 19
	pause    = time.Second
	pauseMax = time.Minute
	timeout  = 90 * time.Second
	// retryFor is how long the request for a page is retried.
	retryFor = time.Hour
	// step is how often an audit checks whether the watch has reached a page's resourceVersion. behind bounds that wait:
	// bookmarks arrive once a minute, but not every server sends them.
	step   = time.Second / 4
	behind = 3 * time.Minute
	// maxDiffering is the number of differing objects after which the audit reads no further pages.
	maxDiffering = 200
	// verifyEvery is the minimum time between two verifications of the file by audits.
	verifyEvery = time.Hour
)

// MinTime returns the minimum duration of an audit of that many objects.
func MinTime(objects int) time.Duration {
	return time.Duration(max(0, (objects-1)/pageSize)) * pause
}

// verdict is the result of comparing all objects: whether a list is due, and why.
type verdict int

const (
	equal   verdict = iota
	differs         // differs: objects differ, or may differ
	rewound         // rewound: the server's resourceVersion is older than the watch's
)

type scan struct {
	*Auditor
	report Report
	whole  bool // whole is true if the server does not list metadata with UID and resourceVersion
}

// run compares all objects. If some differ, it requests a list and waits for it. It ends with the informer's run.
func (s *scan) run(ctx context.Context) error {
	running := s.running()
	if running == nil || !s.o.Subject.Live() {
		return ErrNotLive
	}
	ctx, cancel := context.WithCancelCause(klog.NewContext(ctx, klog.FromContext(running)))
	defer cancel(nil)
	defer context.AfterFunc(running, func() { cancel(context.Cause(running)) })()
	// Only a verification of the file finds missing records: reads do not notice them.
	if err := s.repaired(ctx, s.o.Subject.Verify(ctx, verifyEvery)); err != nil {
		return err
	}
	due, err := s.pages(ctx)
	if due == equal {
		return err
	}
	if s.report.Differing > 0 {
		s.found(ctx)
	}
	listed := s.awaitList()
	s.o.Subject.Relist(due == rewound)
	select {
	case <-listed:
		s.report.Listed = true
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *scan) repaired(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return s.o.Subject.Repaired(ctx, err)
}

// stored returns references to the stored objects whose keys are greater than after and at most to. An empty to means
// no limit.
func (s *scan) stored(ctx context.Context, after, to string) (refs []entry.ObjectRef, err error) {
	for {
		page, err := s.o.Subject.Refs(ctx, after, pageSize)
		if err != nil {
			if err := s.repaired(ctx, err); err != nil {
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
		if len(page) < pageSize {
			return refs, nil
		}
		after = page[len(page)-1].Key
	}
}

// pages compares the server's objects page by page, and returns whether a list is due, also beside an error.
func (s *scan) pages(ctx context.Context) (due verdict, err error) {
	after, token := "", ""
	for {
		held := s.o.Subject.LastSyncResourceVersion()
		asked := s.o.Clock.Now()
		p, err := s.page(ctx, token)
		took := s.o.Clock.Since(asked)
		if err != nil {
			return due, err
		}
		switch {
		case !entry.ComparableRV(p.resourceVersion) || !entry.ComparableRV(held):
			return due, ErrNotAuditable
		case token == "" && entry.NewerRV(held, p.resourceVersion):
			return rewound, nil
		case !inOrder(after, p.refs):
			return differs, nil // the server does not sort, so pages cannot be compared; a list needs no order
		}
		s.report.Objects += len(p.refs)
		last := ""
		if n := len(p.refs); n > 0 && p.next != "" {
			last = p.refs[n-1].Key
		}
		if len(p.refs) > 0 || p.next == "" {
			if err := s.comparePage(ctx, p, after, last); err != nil {
				return due, err
			}
			after = last
		}
		if s.report.Differing > 0 {
			due = differs
		}
		if p.next == "" || s.report.Differing > maxDiffering {
			return due, nil
		}
		token = p.next
		if err := base.Sleep(ctx, s.o.Clock, min(max(pause, rest*took), pauseMax)); err != nil {
			return due, err
		}
	}
}

func inOrder(after string, refs []entry.ObjectRef) bool {
	for _, ref := range refs {
		if ref.Key <= after {
			return false
		}
		after = ref.Key
	}
	return true
}

// comparePage compares a page with the stored objects whose keys are greater than after and at most last. An empty last
// means no limit. If objects differ, it compares again once the watch has reached the page's resourceVersion.
func (s *scan) comparePage(ctx context.Context, p page, after, last string) error {
	differing, err := s.differing(ctx, p, after, last)
	if err == nil && len(differing) > 0 {
		if err = s.catchUp(ctx, p.resourceVersion); err == nil {
			differing, err = s.differing(ctx, p, after, last)
		}
	}
	if err != nil {
		return err
	}
	s.report.Differing += len(differing)
	s.report.Keys = append(s.report.Keys, differing[:min(len(differing), maxKeys-len(s.report.Keys))]...)
	return nil
}

func (s *scan) found(ctx context.Context) {
	s.mu.Lock()
	s.incidentLocked(CauseAudit)
	s.mu.Unlock()
	klog.FromContext(ctx).Info("Stored objects are not what the server has; listing again", "type", s.o.Description,
		"objects", s.report.Differing, "keys", s.report.Keys)
}

// catchUp waits until the stored state has reached the page's resourceVersion. It returns without an error if a live
// watch has not reached it within behind, since not every server sends bookmarks.
func (s *scan) catchUp(ctx context.Context, to string) error {
	begun := s.o.Clock.Now()
	for entry.NewerRV(to, s.o.Subject.LastSyncResourceVersion()) && s.o.Clock.Since(begun) < behind {
		if !s.o.Subject.Live() {
			begun = s.o.Clock.Now()
		}
		if err := base.Sleep(ctx, s.o.Clock, step); err != nil {
			return err
		}
	}
	if err := s.o.Subject.WaitIdle(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// differing returns the keys whose object in the page differs from the stored one, unless the reason is known: the
// stored object is newer than the page, or the informer has skipped or deleted the object.
func (s *scan) differing(ctx context.Context, p page, after, last string) (keys []string, err error) {
	stored, err := s.stored(ctx, after, last)
	if err != nil {
		return nil, err
	}
	for _, server := range p.refs {
		for len(stored) > 0 && stored[0].Key < server.Key {
			// An object stored after the page was read is no difference: the page could not have it.
			if !entry.NewerRV(stored[0].ResourceVersion, p.resourceVersion) {
				keys = append(keys, stored[0].Key)
			}
			stored = stored[1:]
		}
		if len(stored) == 0 || stored[0].Key != server.Key {
			if !s.isDeleted(server.Key) && !s.isSkipped(server.Key) {
				keys = append(keys, server.Key)
			}
			continue
		}
		have := stored[0]
		stored = stored[1:]
		if have != server && !entry.NewerRV(have.ResourceVersion, p.resourceVersion) && !s.isSkipped(server.Key) {
			keys = append(keys, server.Key)
		}
	}
	for _, ref := range stored {
		if !entry.NewerRV(ref.ResourceVersion, p.resourceVersion) {
			keys = append(keys, ref.Key)
		}
	}
	return keys, nil
}

// page is one page of the server's list, as references: key, UID and resourceVersion of each object.
type page struct {
	refs []entry.ObjectRef // refs are in the order of the answer, normally the order of keys
	// resourceVersion is the list's resourceVersion. next is the continue token of the next page; "" after the last page.
	resourceVersion, next string
}

// page requests a page, and retries for up to retryFor. If the token has expired, page continues with the token in the
// server's error, which may be of a newer resourceVersion. That is harmless, since each page is compared by itself.
func (s *scan) page(ctx context.Context, token string) (p page, err error) {
	begun := s.o.Clock.Now()
	// The wait before a retry is 0.2 s at first, and doubles with each retry up to 10 s.
	delay := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 10 * time.Second}
	for {
		limited, cancel := context.WithTimeout(ctx, timeout)
		p, err = s.list(limited, metav1.ListOptions{Limit: pageSize, Continue: token})
		cancel()
		if err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return p, context.Cause(ctx)
		}
		var status apierrors.APIStatus
		if apierrors.IsResourceExpired(err) && errors.As(err, &status) && status.Status().Continue != "" {
			token = status.Status().Continue
			continue
		}
		if s.o.Clock.Since(begun) > retryFor {
			return p, err
		}
		klog.FromContext(ctx).V(2).Info("A page of an audit failed; trying again", "err", err)
		wait := delay.Step()
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait += time.Duration(seconds) * time.Second
		}
		if err := base.Sleep(ctx, s.o.Clock, wait); err != nil {
			return p, err
		}
	}
}

// list requests a page by metadata, or, if the server refuses that, whole objects.
func (s *scan) list(ctx context.Context, o metav1.ListOptions) (page, error) {
	if s.o.ListMetadata != nil && !s.whole {
		list, err := s.o.ListMetadata(ctx, o)
		switch {
		case apierrors.IsNotAcceptable(err), apierrors.IsUnsupportedMediaType(err):
		case err != nil:
			return page{}, err
		case namesAll(list.Items):
			return s.pageOf(list)
		}
		s.whole = true
	}
	list, err := s.o.List(ctx, o)
	if err != nil {
		return page{}, err
	}
	return s.pageOf(list)
}

func namesAll(items []metav1.PartialObjectMetadata) bool {
	for i := range items {
		if items[i].UID == "" || items[i].ResourceVersion == "" {
			return false
		}
	}
	return true
}

// pageOf returns references to the listed objects that the informer stores.
func (a *Auditor) pageOf(list runtime.Object) (p page, err error) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return p, fmt.Errorf("the answer to a list request is no list: %w", err)
	}
	p.resourceVersion, p.next = m.GetResourceVersion(), m.GetContinue()
	return p, meta.EachListItem(list, func(obj runtime.Object) error {
		if acc, err := meta.Accessor(obj); err == nil && a.o.Stores(obj) {
			p.refs = append(p.refs, entry.RefOf(acc))
		}
		return nil
	})
}
