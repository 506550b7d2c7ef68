package fakeapi

import (
	"net/http"
	"sync"
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

// Server is a state (objects, history, faults, request log); Start serves it.
type Server struct {
	*storage
	requestLog
	faults
	openapi
	offer
	release
	resources []*kind
	sharding  bool

	// What follows is of the listener; Start and Stop only touch it.
	port     int
	http     *http.Server
	serving  sync.WaitGroup
	conns    *connections
	stopping chan struct{}
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	if o.StartRV == 0 {
		o.StartRV = defaultStartRV
	}
	if o.History <= 0 {
		o.History = defaultHistory
	}
	resources := append(builtinKinds(), customKinds(o.Resources)...)
	return &Server{
		storage: newStorage(resources, o.StartRV, o.History), resources: resources, sharding: o.Sharding,
	}
}
