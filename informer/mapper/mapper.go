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
	store   *store.Store     // nil: nothing is kept
	limiter *limiter.Limiter // what the store's informers know of the way to the server; nil without a store

	// known is replaced by the caller that has asked the server, and never changed.
	known atomic.Pointer[known]
	// turn has room for the Run that works, and news for word of something to write.
	turn, news chan struct{}

	mu       sync.Mutex
	flight   *flight   // guarded by mu; nil while nobody asks
	answered bool      // guarded by mu; the server has, in this process
	failures int       // guarded by mu; in a row
	until    time.Time // guarded by mu; until then misses fail at once
	askErr   error     // guarded by mu; why the server could not be asked last; nil if it could
	kept     kept      // guarded by mu
	keepErr  error     // guarded by mu; why what is known is not stored; nil if it is
}

var _ meta.RESTMapper = &Mapper{}

// known is what the server has said.
type known struct {
	mapper meta.RESTMapper
	groups []group
	// encoded is groups as they are stored, by which they are compared.
	encoded string
	asOf    time.Time // zero if it has not said anything
	// failed are the group-versions that it could say nothing of.
	failed map[schema.GroupVersion]error
}

// kept is what the store has.
type kept struct {
	encoded string
	asOf    time.Time
}

// Status is a snapshot of a Mapper.
type Status struct {
	// AsOf is when the server said what is known; zero if nothing is.
	AsOf time.Time
	// Stored: the next process will know it too.
	Stored bool
	// Err is why the server could not be asked the last time that was tried, or why what it said cannot be stored; nil if
	// there is nothing of the kind.
	Err error
}

// New returns a RESTMapper that answers from what st keeps of the server's discovery. It asks nobody. Without a store
// nothing is kept; without an HTTP client one is made of config. It fails if st is closed, or config is wrong.
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

// load takes what the store has. A document that cannot be used is as good as none.
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
			// else the server has answered meanwhile
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

// ask answers a query about a group from what is known, and asks the server if that does not have it.
func ask[T any](m *Mapper, group string, query func(meta.RESTMapper) (T, error)) (T, error) {
	k := m.known.Load()
	answer, err := query(k.mapper)
	// What another caller has asked for may be older than the miss; what is asked for after that is not.
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

// failure is why something that is not known of the group may be there all the same; nil if it is not.
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
		if singular == "" && err == nil { // what a mapper says that knows nothing at all
			err = &meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: resource}}
		}
		return singular, err
	})
	if err != nil {
		return resource, err
	}
	return singular, nil
}
