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
