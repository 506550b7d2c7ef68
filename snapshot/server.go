package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/facts"
)

// Listing is one collection of a live server, with the function that lists it.
type Listing struct {
	// Identity identifies the collection. Its Representation is set to entry.Unstructured.
	Identity entry.Identity
	Resource entry.ResourceInfo
	// OpenAPI is the server's hash of the resource's schema, to be stored in Attributes.OpenAPI. Empty means unknown.
	OpenAPI string
	// List returns a page of the collection in the identity's namespace. It must pass the options to the server: they
	// contain the selectors of the identity.
	List func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error)
	// Optional: if the server refuses the list (forbidden, not found, no such method), the collection is saved as not
	// Complete, and is in Saved.Refused. Default: SaveServer fails.
	Optional bool
}

// Refused is a collection whose list a live server refused, with the error.
type Refused struct {
	Collection Collection
	Err        error
}

// SaveServer saves a snapshot of a live server to the file at path, like Save, without a store. Each collection has
// exactly the state of its resourceVersion, which may differ between collections. It is listed in pages of one
// resourceVersion. If that expires meanwhile (410), or pages are not in the order of keys, the save starts again with
// larger pages for this collection, and finally with one page. Set ServerVersion in o.Header, and set ClusterID to the
// UID of the namespace kube-system, so that a restored store knows its cluster.
func SaveServer(ctx context.Context, lists []Listing, path string, o SaveOptions) (Saved, error) {
	src := &liveSource{byID: map[string]*liveList{}, pageSize: cmp.Or(o.pageSize, listPage), documents: o.Documents}
	for _, l := range lists {
		if err := src.add(l, o.Header.ClusterID); err != nil {
			return Saved{}, fmt.Errorf("save: %w", err)
		}
	}
	return saveAt(path, o, func(f *os.File) (Saved, error) {
		for {
			saved, err := save(ctx, src, f, o)
			if !src.retry(err) {
				saved.Refused = src.refused()
				return saved, err
			}
			_, err = f.Seek(0, io.SeekStart)
			if err := errors.Join(err, f.Truncate(0)); err != nil {
				return Saved{}, err
			}
		}
	})
}

// liveSource is a Source that lists the collections of a live server.
type liveSource struct {
	order     []*liveList
	byID      map[string]*liveList
	pageSize  int64
	now       *liveList // the collection whose list is in progress
	documents facts.Memory
}

type liveList struct {
	Listing
	codec   codec.Codec
	c       Collection
	tries   int    // number of times that the list had to start again
	rv      string // resourceVersion of the list; empty before the first page
	at      time.Time
	refused error // the server's refusal of the list; nil for none
}

func (s *liveSource) add(l Listing, cluster string) (err error) {
	l.Identity.Representation = entry.Unstructured
	if l.Identity, err = l.Identity.Canonical(); err != nil {
		return err
	}
	switch {
	case l.List == nil:
		return fmt.Errorf("%s: Listing.List must be set", l.Identity)
	case s.byID[l.Identity.ID()] != nil:
		return fmt.Errorf("the collection %s is there twice: %w", l.Identity, ErrOrder)
	}
	one := &liveList{Listing: l, codec: codec.Unstructured()}
	one.c = Collection{Identity: l.Identity, Resource: l.Resource, Attributes: entry.Attributes{
		ClusterID: cluster, Codec: one.codec.Name(), Schema: one.codec.Fingerprint(), OpenAPI: l.OpenAPI}}
	s.order, s.byID[l.Identity.ID()] = append(s.order, one), one
	return nil
}

func (s *liveSource) refused() (all []Refused) {
	for _, l := range s.order {
		if l.refused != nil {
			all = append(all, Refused{l.c, l.refused})
		}
	}
	return all
}

// Collections implements Source. The resourceVersions are unknown until Records has listed the collections.
func (s *liveSource) Collections(context.Context) ([]Collection, error) {
	all := make([]Collection, len(s.order))
	for i, l := range s.order {
		all[i] = l.c
	}
	return all, nil
}

// Records implements Source: it lists the collection on the server and calls fn with each object.
func (s *liveSource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	s.now = s.byID[id.ID()]
	if s.now == nil {
		return fmt.Errorf("%s: %w", id, ErrNoCollection)
	}
	if err := s.now.list(ctx, s.pageSize*listSizes[s.now.tries], fn); err != nil {
		return fmt.Errorf("list %s: %w", id, err)
	}
	return nil
}

func (s *liveSource) withState(c Collection) Collection {
	l := s.byID[c.Identity.ID()]
	c.LastContact = l.at
	switch {
	case l.refused != nil:
		c.MustRelist = "the server did not list it"
	case !entry.ComparableRV(l.rv):
		c.Complete, c.MustRelist = true, entry.MustRelistOpaque
	default:
		c.Complete, c.ResourceVersion = true, l.rv
	}
	return c
}

// listPage is the number of objects in a page of a live server's list. A relist of an informer uses the same number.
const listPage = 2000

// listSizes are the page sizes that are tried in turn for a collection, in multiples of the first size. 0 means one
// page with all objects, which cannot expire.
var listSizes = []int64{1, 5, 0}

// errExpired: the server has compacted the resourceVersion of the list's first page before the list ended.
var errExpired = errors.New("the server has forgotten the resourceVersion of the list while it was read")

// retry counts the attempt and returns true if the save may succeed with larger pages for the current collection.
func (s *liveSource) retry(err error) bool {
	if !errors.Is(err, errExpired) && !errors.Is(err, ErrOrder) || s.now == nil || s.now.tries == len(listSizes)-1 {
		return false
	}
	s.now.tries++
	return true
}

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
