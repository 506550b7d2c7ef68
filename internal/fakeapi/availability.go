package fakeapi

import (
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/apistatus"
)

// availability has the resources and group-versions that the server does not serve.
type availability struct {
	mu      sync.Mutex
	dropped map[schema.GroupVersionResource]bool // resources that SetServed has stopped; mu guards dropped and away
	away    map[schema.GroupVersion]bool         // group-versions that SetAvailable has made unavailable
}

// SetServed starts or stops serving a resource, as when a CustomResourceDefinition stops serving a version. Stopping a
// resource removes it from discovery, ends its open watches, and answers requests for it with 404.
func (s *Server) SetServed(gvr schema.GroupVersionResource, served bool) {
	s.availability.mu.Lock()
	if s.availability.dropped == nil {
		s.availability.dropped = map[schema.GroupVersionResource]bool{}
	}
	s.availability.dropped[gvr] = !served
	s.availability.mu.Unlock()
	if !served {
		s.BreakWatches(gvr, BreakEOF)
	}
}

// SetAvailable makes a group-version available or unavailable, like an aggregated API whose server is down. Discovery
// still lists an unavailable group-version in its group, but all other requests for it get 503. Its open watches end.
func (s *Server) SetAvailable(gv schema.GroupVersion, available bool) {
	s.availability.mu.Lock()
	if s.availability.away == nil {
		s.availability.away = map[schema.GroupVersion]bool{}
	}
	s.availability.away[gv] = !available
	s.availability.mu.Unlock()
	for _, k := range s.resources {
		if !available && k.GroupVersion() == gv {
			s.BreakWatches(k.GroupVersionResource, BreakEOF)
		}
	}
}

func (o *availability) serves(gvr schema.GroupVersionResource) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.dropped[gvr]
}

func (o *availability) available(gv schema.GroupVersion) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.away[gv]
}

func (s *Server) served() []*kind {
	return slices.DeleteFunc(slices.Clone(s.resources), func(k *kind) bool { return !s.serves(k.GroupVersionResource) })
}

func errAway() error {
	return apistatus.New(http.StatusServiceUnavailable, "service unavailable")
}
