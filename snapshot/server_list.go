package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// listPage is the number of objects of a page, as in a relist.
const listPage = 2000

// listSizes returns the page size of each try, as a multiple of the first; 0 means all in one page, which cannot
// expire.
func listSizes() []int64 { return []int64{1, 5, 0} }

// errExpired: the server has forgotten the resourceVersion of the pages before.
var errExpired = errors.New("the server has forgotten the resourceVersion of the list while it was read")

// list calls fn with all objects of a collection, as they were at one resourceVersion.
func (s *liveSource) list(ctx context.Context, l *liveList, fn func(entry.Entry) error) error {
	var err error
	for _, times := range listSizes() {
		// ErrOrder: the server's list is not in the order of keys. A list of one page is sorted.
		if err = s.try(ctx, l, s.pageSize*times, fn); !errors.Is(err, errExpired) && !errors.Is(err, ErrOrder) {
			break
		}
	}
	if l.Optional && isRefused(err) {
		l.refused = err
		return nil
	}
	return err
}

// isRefused reports whether err is a server's refusal to list the collection.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// try lists the collection once. fn is called only once all of it has been read.
func (s *liveSource) try(ctx context.Context, l *liveList, limit int64, fn func(entry.Entry) error) error {
	records, next, err := s.page(ctx, l, limit, "")
	if err != nil {
		return err
	}
	if next == "" {
		slices.SortFunc(records, func(a, b entry.Entry) int { return strings.Compare(a.Key, b.Key) })
		return each(records, fn)
	}
	sp, err := newSpool(s.target)
	if err != nil {
		return err
	}
	defer sp.close()
	if err := s.fill(ctx, sp, l, limit, records, next); err != nil {
		return err
	}
	whole, err := sp.open()
	if err != nil {
		return err
	}
	return whole.Records(ctx, l.Identity, fn)
}

// fill writes a snapshot of the collection to a spool. records is its first page.
func (s *liveSource) fill(
	ctx context.Context, w io.Writer, l *liveList, limit int64, records []entry.Entry, next string,
) error {
	out, err := newWriter(w, Header{}, writerOptions{})
	if err != nil {
		return err
	}
	if err := out.Begin(l.Identity); err != nil {
		return err
	}
	for {
		if err := each(records, out.Add); err != nil {
			return err
		}
		if next == "" {
			break
		}
		if records, next, err = s.page(ctx, l, limit, next); err != nil {
			return err
		}
	}
	if _, err := out.End(l.c); err != nil {
		return err
	}
	return out.Close()
}

func each(records []entry.Entry, fn func(entry.Entry) error) error {
	for _, r := range records {
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

// page requests the page with that token, which must have the resourceVersion of the first one.
func (s *liveSource) page(
	ctx context.Context, l *liveList, limit int64, token string,
) (records []entry.Entry, next string, err error) {
	list, err := l.listRetried(ctx, metav1.ListOptions{
		LabelSelector: l.Identity.LabelSelector, FieldSelector: l.Identity.FieldSelector, Limit: limit, Continue: token,
	})
	if err != nil {
		if token != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
			err = fmt.Errorf("%w: %w", errExpired, err)
		}
		return nil, "", err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", err
	}
	if token == "" {
		l.rv, l.at = m.GetResourceVersion(), time.Now()
		s.listed = 0
	} else if rv := m.GetResourceVersion(); rv != l.rv {
		return nil, "", fmt.Errorf("%w: it went on at %s after %s", errExpired, rv, l.rv)
	}
	if records, err = l.encode(list); err != nil {
		return nil, "", err
	}
	left := 0
	if n := m.GetRemainingItemCount(); n != nil {
		left = int(*n)
	}
	s.tell(len(records), left)
	return records, m.GetContinue(), nil
}

// listRetried requests a page, and retries if the error may pass: with the same token the server returns the same page.
func (l *liveList) listRetried(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
	backoff := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5}
	ended := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		list, err = l.List(ctx, o)
		return !isPassing(err), nil
	})
	if err == nil && ended != nil {
		err = ended
	}
	return list, err
}

// isPassing reports whether the same request may be answered in a moment.
func isPassing(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}

// encode returns the items as records.
func (l *liveList) encode(list runtime.Object) (records []entry.Entry, err error) {
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		m, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		payload, err := l.Codec.Append(nil, obj)
		if err != nil {
			return fmt.Errorf("object %s: %w", key, err)
		}
		records = append(records, entry.Entry{
			Key: key, UID: string(m.GetUID()), ResourceVersion: m.GetResourceVersion(), Encoding: l.Codec.Name(),
			Payload: payload,
		})
		return nil
	})
	return records, err
}
