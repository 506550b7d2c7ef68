package fakeapi

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

const (
	defaultStartRV = 1000
	defaultHistory = 200_000
)

// Options are the options of New. The zero value works.
type Options struct {
	// Resources served besides pods, configmaps, secrets, nodes, namespaces
	// and deployments: custom resources, JSON only.
	Resources []Resource
	// StartRV is the resourceVersion that the first write gets. Default 1000. The namespaces that every server
	// has (default, kube-system) are the first writes.
	StartRV uint64
	// History is how many events of each resource a watch can go back. Default 200,000.
	History int
	// Sharding turns shard selectors on (kube-apiserver's feature gate ShardedListAndWatch). Without it they are ignored,
	// as kube-apiserver does by default.
	Sharding bool
}

// Server is the state (objects, history, counters, faults); Start serves it.
type Server struct {
	o         Options
	resources []*kind
	byPath    map[schema.GroupVersionResource]*kind

	// listener side; touched by Start and Stop only.
	port     int
	http     *http.Server
	serving  sync.WaitGroup
	conns    *connections
	stopping chan struct{}

	counters counters
	faults   faults
	openapi  openapi
	release  release

	mu sync.Mutex
	// rv is the resourceVersion of the last write. Guarded by mu, like all below.
	rv uint64
	// compacted is the RV that history was given up to: watches must start there or later.
	compacted uint64
	tables    map[schema.GroupVersionResource]*table
	// bookmarks counts the calls of Bookmark.
	bookmarks uint64
	// watching is closed and replaced when a watch opens or closes.
	watching chan struct{}
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	if o.StartRV == 0 {
		o.StartRV = defaultStartRV
	}
	if o.History <= 0 {
		o.History = defaultHistory
	}
	s := &Server{
		o:        o,
		byPath:   map[schema.GroupVersionResource]*kind{},
		tables:   map[schema.GroupVersionResource]*table{},
		watching: make(chan struct{}),
		rv:       o.StartRV - 1,
	}
	s.compacted = s.rv
	for _, k := range append(builtinKinds(), customKinds(o.Resources)...) {
		s.resources = append(s.resources, k)
		s.byPath[k.GroupVersionResource] = k
		s.tables[k.GroupVersionResource] = newTable(k)
	}
	s.createNamespaces()
	return s
}

// createNamespaces writes the namespaces that every cluster has. Their UIDs are fresh, so the UID of
// kube-system tells one server from another.
func (s *Server) createNamespaces() {
	k := s.byPath[namespacesGVR]
	for _, name := range []string{"default", "kube-system"} {
		ns := newNamespace(name)
		ns.UID = uuid.NewUUID()
		// Encoding a namespace that was made here cannot fail.
		_, _ = s.create(k, ns, "")
	}
}

// RV returns the current resourceVersion.
func (s *Server) RV() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return formatRV(s.rv)
}

// Compact drops the watch history: a watch from any older RV gets 410, and so do continue tokens. Open
// watches are not disturbed.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compactLocked()
}

func (s *Server) compactLocked() {
	s.compacted = s.rv
	for _, t := range s.tables {
		t.compact()
	}
}

// Bookmark sends a bookmark with the current RV on every open watch that allows them.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarks++
	for _, t := range s.tables {
		t.wake()
	}
}
