package informer

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// refPage is one page of a list of identities.
type refPage struct {
	refs []entry.ObjectRef // in the order of the answer, which is that of their keys
	// resourceVersion is that of the list, and next asks for the next page; empty at the end.
	resourceVersion, next string
}

// refLister lists identities for audits: by metadata where that is possible.
type refLister struct {
	*Informer
	whole bool // metadata are not, or have been refused
}

// page makes one request.
func (l *refLister) page(ctx context.Context, o metav1.ListOptions) (refPage, error) {
	if l.o.ListMetadata != nil && !l.whole {
		list, err := l.o.ListMetadata(ctx, o)
		switch {
		case apierrors.IsNotAcceptable(err), apierrors.IsUnsupportedMediaType(err):
		case err != nil:
			return refPage{}, err
		case namesAll(list.Items):
			return l.refsOf(list)
		}
		l.whole = true
	}
	list, err := cache.ToListerWatcherWithContext(l.lw).ListWithContext(ctx, o)
	if err != nil {
		return refPage{}, err
	}
	return l.refsOf(list)
}

// namesAll reports whether each of them says which object it is, and in which state.
func namesAll(items []metav1.PartialObjectMetadata) bool {
	for i := range items {
		if items[i].UID == "" || items[i].ResourceVersion == "" {
			return false
		}
	}
	return true
}

// refsOf leaves out strays, which are not stored either, and what is of other shards, which a server may send that does not heed the selector.
func (l *refLister) refsOf(list runtime.Object) (p refPage, err error) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return p, fmt.Errorf("the answer to a list request is no list: %w", err)
	}
	p.resourceVersion, p.next = m.GetResourceVersion(), m.GetContinue()
	id := l.Identity()
	admits, shards := admit(id), id.Shards()
	return p, meta.EachListItem(list, func(obj runtime.Object) error {
		acc, err := meta.Accessor(obj)
		if err != nil || admits(obj) != nil {
			return nil //nolint:nilerr // a stray
		}
		if ours, err := shards.Matches(obj); ours || err != nil {
			p.refs = append(p.refs, refOf(acc))
		}
		return nil //nolint:nilerr // what has no metadata is no stray
	})
}

func refOf(acc metav1.Object) entry.ObjectRef {
	return entry.ObjectRef{
		Key: cache.NewObjectName(acc.GetNamespace(), acc.GetName()).String(),
		UID: string(acc.GetUID()), ResourceVersion: acc.GetResourceVersion(),
	}
}
