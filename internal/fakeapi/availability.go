package fakeapi

import (
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/apistatus"
)

// availability records which of the server's resources and group-versions are not served. All are served by default.
type availability struct {
	mu      sync.Mutex
	dropped map[schema.GroupVersionResource]bool // resources that SetServed has stopped; guarded by mu
	away    map[schema.GroupVersion]bool         // group-versions that SetAvailable has made unavailable; guarded by mu
}

// SetServed starts or stops serving a resource, as when a CustomResourceDefinition stops serving a version. A resource
// that is not served is missing from discovery, and requests for it get 404. Its open watches end.
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

// SetAvailable makes a group-version available or unavailable, as an aggregated API becomes when its server is down.
// Discovery still lists an unavailable group-version in its group, but all other requests for it get 503. Its open
// watches end.
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

// served returns the resources that are served.
func (s *Server) served() []*kind {
	return slices.DeleteFunc(slices.Clone(s.resources), func(k *kind) bool { return !s.serves(k.GroupVersionResource) })
}

func errAway() error {
	return apistatus.New(http.StatusServiceUnavailable, "service unavailable")
}
