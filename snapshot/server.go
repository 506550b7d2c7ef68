package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

// Listing is one collection of a live server, with the function that lists it.
type Listing struct {
	Identity entry.Identity
	Resource entry.ResourceInfo
	// OpenAPI is the server's hash of the schema, for Attributes.OpenAPI. Empty means unknown.
	OpenAPI string
	// Codec of the objects. Default by the representation: codec.Unstructured, or that of PartialObjectMetadata; a
	// collection of Typed objects needs one.
	Codec codec.Codec
	// List returns a page of the collection in the identity's namespace, as a ListFunc of client-go does: a list whose
	// items have the codec's type, with resourceVersion and continue token. It must pass the options to the server; they
	// have the selectors of the identity.
	List func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error)
	// Optional: if the server refuses to list the collection (forbidden, not found, no such method), it is written as not
	// Complete and named in Saved.Refused. Default: SaveServer fails.
	Optional bool
}

// Refused is a collection that a live server did not list, and why.
type Refused struct {
	Collection Collection
	Err        error
}

// SaveServer writes a snapshot of a live server to the file at path, as Save does, without a store. Each collection is
// exactly what it was at its resourceVersion, which may differ between collections. It is listed in pages of one
// resourceVersion. If that expires meanwhile (410), it is listed again, in larger pages and at last in one. Set
// ClusterID in o.Header to the UID of the namespace kube-system, so that a restored store knows its cluster, and
// ServerVersion.
//
// A collection of several pages is kept in a temporary file beside path until it is whole, encrypted with a key that is
// never stored.
func SaveServer(ctx context.Context, lists []Listing, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(w io.Writer, target string) (Saved, error) {
		src := &liveSource{byID: map[string]*liveList{}, target: target, pageSize: cmp.Or(o.pageSize, listPage)}
		for _, l := range lists {
			one, err := newLive(l, o.Header.ClusterID)
			if err != nil {
				return Saved{}, fmt.Errorf("save: %w", err)
			}
			src.order = append(src.order, one)
			src.byID[one.c.Identity.ID()] = one
		}
		saved, err := save(ctx, src, w, o)
		for _, one := range src.order {
			if one.refused != nil && err == nil {
				saved.Refused = append(saved.Refused, Refused{one.c, one.refused})
			}
		}
		return saved, err
	})
}

// liveSource is a Source of the collections of a server. Each is read once.
type liveSource struct {
	order    []*liveList
	byID     map[string]*liveList
	target   string // beside which temporary files are made
	pageSize int64
	// told is called after each page with the number of objects listed, and the number left as far as the server tells it.
	told   func(listed, left int)
	listed int
}

// tell counts objects that were listed.
func (s *liveSource) tell(objects, left int) {
	if s.listed += objects; s.told != nil {
		s.told(s.listed, left)
	}
}

// liveList is one collection of a server.
type liveList struct {
	Listing
	c       Collection
	rv      string // of the list; known when it has been read
	at      time.Time
	refused error // why the server does not list it
}

func newLive(l Listing, cluster string) (*liveList, error) {
	id, err := l.Identity.Canonical()
	if err != nil {
		return nil, err
	}
	if l.List == nil {
		return nil, fmt.Errorf("%s: Listing.List must be set", id)
	}
	if l.Codec == nil {
		switch id.Representation {
		case entry.Unstructured:
			l.Codec = codec.Unstructured()
		case entry.Metadata:
			l.Codec, err = codec.For(&metav1.PartialObjectMetadata{})
		default:
			err = fmt.Errorf("%s: Listing.Codec must be set for typed objects", id)
		}
		if err != nil {
			return nil, err
		}
	}
	l.Identity = id
	return &liveList{Listing: l, c: Collection{
		Identity: id, Resource: l.Resource,
		Attributes: entry.Attributes{ClusterID: cluster, Codec: l.Codec.Name(), Schema: l.Codec.Fingerprint(),
			OpenAPI: l.OpenAPI},
	}}, nil
}

// Collections implements Source. States are not known yet.
func (s *liveSource) Collections(context.Context) ([]Collection, error) {
	all := make([]Collection, len(s.order))
	for i, l := range s.order {
		all[i] = l.c
	}
	return all, nil
}

// Records implements Source: it lists the collection.
func (s *liveSource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	l := s.byID[id.ID()]
	if l == nil {
		return fmt.Errorf("%s: %w", id, ErrNoCollection)
	}
	if err := s.list(ctx, l, fn); err != nil {
		return fmt.Errorf("list %s: %w", id, err)
	}
	return nil
}

// settle implements settler.
func (s *liveSource) settle(c Collection) Collection {
	l := s.byID[c.Identity.ID()]
	c.LastContact = l.at
	switch _, err := resourceversion.CompareResourceVersion(l.rv, l.rv); {
	case l.refused != nil:
		c.MustRelist = "the server did not list it"
	case err != nil:
		c.Complete, c.MustRelist = true, fmt.Sprintf("the server's resourceVersion %q cannot be compared with others", l.rv)
	default:
		c.Complete, c.ResourceVersion = true, l.rv
	}
	return c
}
