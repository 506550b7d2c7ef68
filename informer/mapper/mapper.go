package mapper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/store"
)

// Mapper is a meta.RESTMapper. See the package's documentation.
type Mapper struct {
	client  *discovery.DiscoveryClient
	store   *store.Store     // store is nil if discovery is not stored
	limiter *limiter.Limiter // limiter is the limiter of the store's informers; nil without a store

	// known is the current discovery, never nil. A *known is immutable: the caller that received a new answer swaps it.
	known atomic.Pointer[known]
	// sem holds a token while a caller asks the server. news holds a token when known has changed.
	sem, news chan struct{}

	mu       sync.Mutex      // mu guards the fields below
	failures int             // failures counts the requests that failed in a row
	until    time.Time       // until is the end of the back-off; until then misses fail at once
	askErr   error           // askErr is the error of the last request; nil if the server answered
	stored   facts.Discovery // stored is the discovery in the store
	keepErr  error           // keepErr is why the known discovery is not stored; nil if it is
}

var _ meta.RESTMapper = &Mapper{}

// known is the discovery of one answer of the server: all kinds and resources that it had then.
type known struct {
	facts.Discovery
	mapper meta.RESTMapper
	asked  time.Time // asked is when the request began; zero if an earlier process made it
	// failed has the error of each group-version whose aggregated API server did not answer.
	failed map[schema.GroupVersion]error
}

// Status is a snapshot of a Mapper.
type Status struct {
	// AsOf is when the server last answered with its discovery; zero if there is no discovery.
	AsOf time.Time
	// Stored is true if the known discovery is in the store.
	Stored bool
	// Err is the error of the last request to the server, or why its answer cannot be stored; nil if there is none.
	Err error
}

// New returns a RESTMapper that answers from the discovery in st. It sends no request. If st is nil, discovery is not
// stored. If client is nil, one is made from config. New fails if st is closed or config is invalid.
func New(config *rest.Config, client *http.Client, st *store.Store) (*Mapper, error) {
	if client == nil {
		made, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("RESTMapper: %w", err)
		}
		client = made
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("RESTMapper: %w", err)
	}
	m := &Mapper{client: d, store: st, sem: make(chan struct{}, 1), news: make(chan struct{}, 1)}
	m.setKnown(&known{})
	if st == nil {
		return m, nil
	}
	m.limiter = st.Limiter()
	stored, err := m.read(context.Background())
	switch {
	case errors.Is(err, store.ErrClosed):
		return nil, fmt.Errorf("RESTMapper: %w", err)
	case err != nil:
		klog.Background().Error(err, "The stored discovery cannot be used; the API server will be asked", "file", st.Path())
	default:
		m.stored = stored
		m.setKnown(&known{Discovery: stored})
	}
	return m, nil
}

func (m *Mapper) setKnown(k *known) {
	k.mapper = restmapper.NewDiscoveryRESTMapper(k.Groups)
	m.known.Store(k)
}

// Status returns a snapshot. Safe at any time.
func (m *Mapper) Status() Status {
	k := m.known.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	return Status{
		AsOf: k.Fetched, Stored: !m.stored.Fetched.IsZero() && m.stored.Equal(k.Discovery), Err: cmp.Or(m.askErr, m.keepErr),
	}
}

// ask answers a query about a group from the known discovery. On a miss it fetches discovery and repeats the query.
func ask[Q, T any](m *Mapper, group string, q Q, query func(meta.RESTMapper, Q) (T, error)) (T, error) {
	answer, err := query(m.known.Load().mapper, q)
	if !meta.IsNoMatchError(err) {
		return answer, err
	}
	k, missed := m.miss()
	if missed != nil {
		return answer, missed
	}
	answer, err = query(k.mapper, q)
	if cause := k.failure(group); cause != nil && meta.IsNoMatchError(err) {
		return answer, fmt.Errorf("%w: its answer lacks a version of the group %q: %w", ErrUnreachable, group, cause)
	}
	return answer, err
}

// failure returns the error of a version of the group whose discovery failed: the group may have kinds that k lacks.
func (k *known) failure(group string) error {
	for gv, err := range k.failed {
		if gv.Group == group {
			return err
		}
	}
	return nil
}

// KindFor implements meta.RESTMapper.
func (m *Mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return ask(m, r.Group, r, meta.RESTMapper.KindFor)
}

// KindsFor implements meta.RESTMapper.
func (m *Mapper) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return ask(m, r.Group, r, meta.RESTMapper.KindsFor)
}

// ResourceFor implements meta.RESTMapper.
func (m *Mapper) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return ask(m, r.Group, r, meta.RESTMapper.ResourceFor)
}

// ResourcesFor implements meta.RESTMapper.
func (m *Mapper) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return ask(m, r.Group, r, meta.RESTMapper.ResourcesFor)
}

// RESTMapping implements meta.RESTMapper.
func (m *Mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return ask(m, gk.Group, gk, func(k meta.RESTMapper, gk schema.GroupKind) (*meta.RESTMapping, error) {
		return k.RESTMapping(gk, versions...)
	})
}

// RESTMappings implements meta.RESTMapper.
func (m *Mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return ask(m, gk.Group, gk, func(k meta.RESTMapper, gk schema.GroupKind) ([]*meta.RESTMapping, error) {
		return k.RESTMappings(gk, versions...)
	})
}

// ResourceSingularizer implements meta.RESTMapper.
func (m *Mapper) ResourceSingularizer(resource string) (string, error) {
	singular, err := ask(m, "", resource, func(k meta.RESTMapper, resource string) (string, error) {
		singular, err := k.ResourceSingularizer(resource)
		if singular == "" && err == nil { // a RESTMapper without resources returns "" and no error
			err = &meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: resource}}
		}
		return singular, err
	})
	if err != nil {
		return resource, err
	}
	return singular, nil
}

// ErrUnreachable: the kind or resource is unknown, and the API server could not be asked whether it exists. Try again
// later.
var ErrUnreachable = errors.New("the API server cannot be asked for its resources")
