package fakeapi

import (
	"net/http"
	"sync"
)

const (
	defaultStartRV = 1000
	defaultHistory = 200_000
)

type Options struct {
	// Resources are custom resources to serve besides pods, configmaps, secrets, nodes, namespaces and deployments. They
	// are served in JSON only.
	Resources []Resource
	// StartRV is the resourceVersion of the first write. Default 1000. The first writes create the namespaces default
	// and kube-system.
	StartRV uint64
	// History is the number of events of each resource that are kept for watches. Default 200,000.
	History int
	// Sharding enables shard selectors (kube-apiserver's feature gate ShardedListAndWatch). Without Sharding they are
	// ignored, as in kube-apiserver by default.
	Sharding bool
}

// Server is an API server of objects in memory. Start serves it over HTTP.
type Server struct {
	*storage
	requestLog
	faults
	openapi
	availability
	release
	resources []*kind
	sharding  bool

	// Only Start and Stop change the fields below.
	port     int
	http     *http.Server
	serving  sync.WaitGroup
	conns    *connections
	stopping chan struct{}
}

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
