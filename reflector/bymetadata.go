package reflector

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// missingShare: a list by metadata (PartialObjectMetadata) fetches single objects only if the Sink lacks at most a
// quarter of the page. Otherwise it requests the page again as whole objects, because each fetched object costs a
// request.
const missingShare = 4

var errOtherObject = errors.New(
	"the field selector of the requests is overwritten on the way, or the server ignores it, so single objects cannot " +
		"be fetched")

// byMetadata reports whether the list requests metadata (Options.ListMetadata) and fetches only changed objects. It
// returns false if the stored objects may be wrong, or from before a restore of the server's backup.
func (s *session) byMetadata(ctx context.Context, reason Reason) bool {
	switch {
	case s.o.ListMetadata == nil || s.lists.noMetadata || s.guards.noLookups || !s.cur.Comparable():
		return false
	case s.gate.Strays > 0:
		return false // only a list of whole objects shows whether Options.Admit still refuses objects
	case s.lists.busy:
		return false
	case reason != ReasonExpired && reason != ReasonStore && reason != ReasonListOnly:
		return false
	}
	return s.o.MetadataPays == nil || s.o.MetadataPays(ctx)
}

func (s *session) metadataLister() (lw requests, possible bool) {
	if s.o.ListMetadata == nil || s.lists.noMetadata {
		return s.conn.lw, false
	}
	return requestsOf(metadataList{s.o.ListMetadata, s.r.lw}, s.conn), true
}

type metadataList struct {
	list func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	cache.ListerWatcherWithContext
}

func (l metadataList) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := l.list(ctx, o)
	if err != nil {
		return nil, err // a nil *PartialObjectMetadataList must not become a non-nil runtime.Object
	}
	return list, nil
}

// takeRefs handles a page of metadata. Objects that the Sink holds with the same UID and resourceVersion count as
// listed; the other objects are fetched one by one.
func (l *list) takeRefs(ctx context.Context, p page) outcome {
	refs, err := l.refsOf(ctx, p.items)
	if err == nil && !entry.ComparableRV(p.rv) {
		err = fmt.Errorf("the list's resourceVersion %q cannot be compared", p.rv)
	}
	if err != nil {
		return l.wholeInstead(ctx, err)
	}
	if key := l.rewound(refs); key != "" {
		return l.listForRewound(ctx, key)
	}
	missing := refs
	if !l.pages.named {
		taken := l.s.conn.listing.releaseIfSlow()
		missing, err = l.s.sink.Known(ctx, refs)
		taken()
		if err != nil {
			return l.s.sinkClosed(err)
		}
	}
	// A fetched object may be newer than the list. Then only a watch beside the list can make the list consistent.
	l.tail.ensure(ctx)
	if !l.pages.named && len(missing)*missingShare > len(refs) {
		return l.wholeInstead(ctx, nil)
	}
	fetched := make(map[string]bool, len(missing))
	for _, ref := range missing {
		fetched[ref.Key] = true
	}
	for _, ref := range refs {
		if !fetched[ref.Key] {
			l.newest.Item(ref)
			l.delivered = true
		}
	}
	l.pages.missing, l.pages.after = missing, p.token
	return l.fetchNext(ctx)
}

// refsOf returns the references (key, UID, resourceVersion) of a page of metadata, without objects of other shards. It
// fails if an object lacks a UID or a comparable resourceVersion.
func (l *list) refsOf(ctx context.Context, items []runtime.Object) ([]entry.ObjectRef, error) {
	refs := make([]entry.ObjectRef, 0, len(items))
	for _, obj := range items {
		if l.s.gate.LeaveOutItem(ctx, obj) {
			continue
		}
		ref, err := identify(obj)
		if err != nil || ref.UID == "" || !entry.ComparableRV(ref.ResourceVersion) {
			return nil, fmt.Errorf("the list by metadata has an object without UID or resourceVersion, %s", ref.Key)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// wholeInstead requests the current page of metadata, and all following pages, as whole objects. err is the reason if
// metadata cannot be used; nil if too many objects would have to be fetched.
func (l *list) wholeInstead(ctx context.Context, err error) outcome {
	if err != nil {
		l.s.lists.byName = false
		// A 403 or 404 may be temporary, so the next list tries metadata again.
		l.s.lists.noMetadata = l.s.lists.noMetadata || !isDenied(err)
	}
	klog.FromContext(ctx).V(2).Info("The list goes on with whole objects", "err", err)
	l.pages.whole()
	l.pages.fetch(ctx, l.pages.token)
	return outcome{}
}

// takeOne delivers one fetched object of a list by metadata. If the object was changed or deleted after the page was
// listed, the watch beside the list delivers that event. Without a watch, only the state in the page may be delivered.
func (l *list) takeOne(ctx context.Context, p page) outcome {
	asListed := false
	for _, obj := range p.items {
		ref, _ := l.s.gate.RefOf(obj)
		if ref.Key != l.pages.one {
			l.s.lists.noMetadata = true
			err := l.s.conn.describe("fetch "+l.pages.one+" of", errOtherObject)
			l.s.conn.report(ctx, err)
			return l.again(err)
		}
		asListed = ref == l.pages.missing[0]
	}
	if !asListed || l.reason != ReasonListOnly {
		l.target = maxRV(l.target, p.rv)
	}
	if err := l.deliver(ctx, p.items); err != nil {
		return l.s.sinkClosed(err)
	}
	l.pages.missing = l.pages.missing[1:]
	return l.fetchNext(ctx)
}

func (l *list) fetchNext(ctx context.Context) outcome {
	if len(l.pages.missing) > 0 {
		l.pages.fetchOne(ctx, l.pages.missing[0].Key)
		return outcome{}
	}
	if l.pages.named {
		l.s.lists.byName = l.pages.slow
		l.pages.whole()
	}
	if l.pages.after != "" {
		l.pages.fetch(ctx, l.pages.after)
	} else if l.pages.done = true; !l.complete() {
		l.tail.drain(ctx)
	}
	return outcome{}
}
