package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/larder-dev/larder/entry"
)

// list lists the collection in pages of limit objects, at one resourceVersion, and calls fn with each object.
func (l *liveList) list(ctx context.Context, limit int64, fn func(entry.Entry) error) error {
	l.refused = nil
	for token := ""; ; {
		page, err := l.page(ctx, metav1.ListOptions{
			LabelSelector: l.Identity.LabelSelector, FieldSelector: l.Identity.FieldSelector, Limit: limit, Continue: token,
		})
		switch {
		case token == "" && l.Optional && isRefused(err):
			l.refused = err
			return nil
		case token != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)):
			return fmt.Errorf("%w: %w", errExpired, err)
		case err != nil:
			return err
		case token == "":
			l.rv, l.at = page.GetResourceVersion(), time.Now()
		case page.GetResourceVersion() != l.rv:
			return fmt.Errorf("%w: it went on at %s after %s", errExpired, page.GetResourceVersion(), l.rv)
		}
		records, err := l.encode(page.Items)
		if err != nil {
			return err
		}
		// A list in one page is sorted here; several pages must arrive sorted by key.
		if token == "" && page.GetContinue() == "" {
			slices.SortFunc(records, func(a, b entry.Entry) int { return strings.Compare(a.Key, b.Key) })
		}
		for _, r := range records {
			if err := fn(r); err != nil {
				return err
			}
		}
		if token = page.GetContinue(); token == "" {
			return nil
		}
	}
}

func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// page requests one page of the list, and retries after transient errors. A retry with the same continue token returns
// the same page.
func (l *liveList) page(ctx context.Context, o metav1.ListOptions) (page *unstructured.UnstructuredList, err error) {
	backoff := wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5}
	ended := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		page, err = l.List(ctx, o)
		return !isTransient(err), nil
	})
	if err == nil && ended != nil {
		err = ended
	}
	return page, err
}

func isTransient(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}

func (l *liveList) encode(items []unstructured.Unstructured) ([]entry.Entry, error) {
	records := make([]entry.Entry, len(items))
	for i := range items {
		ref := entry.RefOf(&items[i])
		payload, err := l.codec.Append(nil, &items[i])
		if err != nil {
			return nil, fmt.Errorf("object %s: %w", ref.Key, err)
		}
		records[i] = entry.Entry{Key: ref.Key, UID: ref.UID, ResourceVersion: ref.ResourceVersion,
			Encoding: l.codec.Name(), Payload: payload}
	}
	return records, nil
}
