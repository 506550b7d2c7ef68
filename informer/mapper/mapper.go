package mapper

import (
	"context"
	"encoding/json"
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

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/store"
)

// Mapper is a meta.RESTMapper. See the package's documentation.
type Mapper struct {
	client  *discovery.DiscoveryClient
	store   *store.Store     // nil: discovery is not stored
	limiter *limiter.Limiter // limiter of the store's informers; nil without a store

	// known is the current discovery. It is immutable; the caller that has asked the server replaces it.
	known atomic.Pointer[known]
	// turn holds a token while a Run works; news holds one when known has changed.
	turn, news chan struct{}

	mu       sync.Mutex
	flight   *flight   // guarded by mu; the request in progress; nil if there is none
	answered bool      // guarded by mu; whether the server has answered in this process
	failures int       // guarded by mu; number of failed requests in a row
	until    time.Time // guarded by mu; until then misses fail at once
	askErr   error     // guarded by mu; error of the last request; nil if the server answered
	kept     kept      // guarded by mu
	keepErr  error     // guarded by mu; why known is not stored; nil if it is
}

var _ meta.RESTMapper = &Mapper{}

// known is the server's discovery at one time.
type known struct {
	mapper meta.RESTMapper
	groups []group
	// encoded is groups as stored, for comparison.
	encoded string
	asOf    time.Time // when the server answered; zero if it has not
	// failed has the group-versions whose own server did not answer.
	failed map[schema.GroupVersion]error
}

// kept is the document in the store.
type kept struct {
	encoded string
	asOf    time.Time
}

// Status is a snapshot of a Mapper.
type Status struct {
	// AsOf is when the server last answered with its discovery; zero if there is no discovery.
	AsOf time.Time
	// Stored is true if that discovery is in the store.
	Stored bool
	// Err is the error of the last request to the server, or why its answer cannot be stored; nil if there is none.
	Err error
}

// New returns a RESTMapper that answers from the discovery in st. It sends no request. If st is nil, discovery is not
// stored; if client is nil, one is made from config. It fails if st is closed, or config is wrong.
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
	m := &Mapper{client: d, store: st, turn: make(chan struct{}, 1), news: make(chan struct{}, 1)}
	m.known.Store(know(nil, time.Time{}, nil))
	if st == nil {
		return m, nil
	}
	m.limiter = st.Limiter()
	if err := m.load(); err != nil {
		return nil, fmt.Errorf("RESTMapper: %w", err)
	}
	return m, nil
}

func know(groups []group, asOf time.Time, failed map[schema.GroupVersion]error) *known {
	encoded, _ := json.Marshal(groups) // strings and bools
	return &known{
		mapper: restmapper.NewDiscoveryRESTMapper(discovered(groups)),
		groups: groups, encoded: string(encoded), asOf: asOf, failed: failed,
	}
}

// load reads the document from the store. A document that cannot be read counts as none.
func (m *Mapper) load() error {
	data, err := m.store.Document(context.Background(), documentName)
	if isClosed(err) {
		return err
	}
	var groups []group
	var asOf time.Time
	if err == nil && data != nil {
		groups, asOf, err = decodeDocument(data)
	}
	if err != nil {
		klog.Background().Error(err, "The stored discovery cannot be used; the API server will be asked", "file",
			m.store.Path())
		return nil
	}
	if data != nil {
		k := know(groups, asOf, nil)
		if was := m.known.Load(); was.asOf.IsZero() && m.known.CompareAndSwap(was, k) {
			// otherwise the server has answered meanwhile
			m.mu.Lock()
			defer m.mu.Unlock()
			m.kept = kept{k.encoded, asOf}
		}
	}
	return nil
}

// Status returns a snapshot. Safe at any time.
func (m *Mapper) Status() Status {
	k := m.known.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{AsOf: k.asOf, Stored: !m.kept.asOf.IsZero() && m.kept.encoded == k.encoded, Err: m.askErr}
	if s.Err == nil {
		s.Err = m.keepErr
	}
	return s
}

// ask answers a query about a group from the known discovery, and asks the server on a miss.
func ask[T any](m *Mapper, group string, query func(meta.RESTMapper) (T, error)) (T, error) {
	k := m.known.Load()
	answer, err := query(k.mapper)
	// A request that another caller began may be older than the miss; the next one is not.
	for asked, try := false, 0; !asked && try < 2 && meta.IsNoMatchError(err); try++ {
		var missed error
		if k, asked, missed = m.miss(k); missed != nil {
			return answer, missed
		}
		answer, err = query(k.mapper)
	}
	if meta.IsNoMatchError(err) {
		if cause := k.failure(group); cause != nil {
			return answer, fmt.Errorf("%w: its answer lacks a version of the group %q: %w", ErrUnreachable, group, cause)
		}
	}
	return answer, err
}

// failure returns an error if a group-version of the group is in failed: a miss may then be wrong.
func (k *known) failure(group string) error {
	for gv, err := range k.failed {
		if gv.Group == group {
			return err
		}
	}
	return nil
}

// KindFor is meta.RESTMapper's.
func (m *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return ask(m, resource.Group, func(k meta.RESTMapper) (schema.GroupVersionKind, error) { return k.KindFor(resource) })
}

// KindsFor is meta.RESTMapper's.
func (m *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return ask(m, resource.Group, func(k meta.RESTMapper) ([]schema.GroupVersionKind,
		error) {
		return k.KindsFor(resource)
	})
}

// ResourceFor is meta.RESTMapper's.
func (m *Mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return ask(m, input.Group, func(k meta.RESTMapper) (schema.GroupVersionResource,
		error) {
		return k.ResourceFor(input)
	})
}

// ResourcesFor is meta.RESTMapper's.
func (m *Mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return ask(m, input.Group, func(k meta.RESTMapper) ([]schema.GroupVersionResource,
		error) {
		return k.ResourcesFor(input)
	})
}

// RESTMapping is meta.RESTMapper's.
func (m *Mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return ask(m, gk.Group, func(k meta.RESTMapper) (*meta.RESTMapping, error) { return k.RESTMapping(gk, versions...) })
}

// RESTMappings is meta.RESTMapper's.
func (m *Mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return ask(m, gk.Group, func(k meta.RESTMapper) ([]*meta.RESTMapping,
		error) {
		return k.RESTMappings(gk, versions...)
	})
}

// ResourceSingularizer is meta.RESTMapper's.
func (m *Mapper) ResourceSingularizer(resource string) (singular string, err error) {
	singular, err = ask(m, "", func(k meta.RESTMapper) (string, error) {
		singular, err := k.ResourceSingularizer(resource)
		if singular == "" && err == nil { // the answer of a mapper without any resources
			err = &meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: resource}}
		}
		return singular, err
	})
	if err != nil {
		return resource, err
	}
	return singular, nil
}
