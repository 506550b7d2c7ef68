package fakeapi

import (
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/apistatus"
)

// offer says which of the server's resources are served now: all, until it is told otherwise.
type offer struct {
	mu      sync.Mutex
	dropped map[schema.GroupVersionResource]bool // guarded by mu
	away    map[schema.GroupVersion]bool         // guarded by mu
}

// SetServed serves a resource or not, as a CustomResourceDefinition's version: one that is not served is not in
// discovery and not found. Watches that are open end.
func (s *Server) SetServed(gvr schema.GroupVersionResource, served bool) {
	s.offer.mu.Lock()
	if s.offer.dropped == nil {
		s.offer.dropped = map[schema.GroupVersionResource]bool{}
	}
	s.offer.dropped[gvr] = !served
	s.offer.mu.Unlock()
	if !served {
		s.BreakWatches(gvr, BreakEOF)
	}
}

// SetAvailable makes a group-version available or not, as an aggregated API whose server is away: one that is not is
// among the groups, and whatever else is asked of it is answered 503. Watches that are open end.
func (s *Server) SetAvailable(gv schema.GroupVersion, available bool) {
	s.offer.mu.Lock()
	if s.offer.away == nil {
		s.offer.away = map[schema.GroupVersion]bool{}
	}
	s.offer.away[gv] = !available
	s.offer.mu.Unlock()
	for _, k := range s.resources {
		if !available && k.GroupVersion() == gv {
			s.BreakWatches(k.GroupVersionResource, BreakEOF)
		}
	}
}

func (o *offer) serves(gvr schema.GroupVersionResource) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.dropped[gvr]
}

func (o *offer) available(gv schema.GroupVersion) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.away[gv]
}

// served are the resources that are served.
func (s *Server) served() []*kind {
	return slices.DeleteFunc(slices.Clone(s.resources), func(k *kind) bool { return !s.serves(k.GroupVersionResource) })
}

func errAway() error {
	return apistatus.New(http.StatusServiceUnavailable, "service unavailable")
}
