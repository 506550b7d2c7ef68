package cluster

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/meter"
)

// Server is the way to an API server, for all resources of a command: their requests share its network connections, of
// which HTTP/2 needs one for a hundred watches. What the server says about itself is asked for once.
type Server struct {
	config *rest.Config
	http   *http.Client
	// Raw makes requests that are about no resource.
	Raw rest.Interface
	// Schemas, ClusterID and Version are what it says about itself.
	Schemas   *requests.Schemas
	ClusterID func(ctx context.Context) (string, error)
	Version   func(ctx context.Context) (string, error)
	// Received is what the network has carried: headers, TLS and compressed bodies.
	Received meter.Received
}

// NewServer makes the clients; it does not contact the server.
func NewServer(config *rest.Config) (*Server, error) {
	s := &Server{}
	s.config = s.Received.Count(config)
	var err error
	if s.http, err = rest.HTTPClientFor(s.config); err != nil {
		return nil, err
	}
	next := s.http.Transport
	s.http.Transport = &lanes{make: func() (rt http.RoundTripper, err error) {
		if rt, next = next, nil; rt == nil {
			rt, err = rest.TransportFor(s.config) // with connections of its own, since the configuration dials
		}
		return rt, err
	}}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(s.config, s.http)
	if err != nil {
		return nil, err
	}
	s.Raw = d.RESTClient()
	s.Schemas, s.ClusterID, s.Version = requests.NewSchemas(s.Raw), requests.KubeSystemUID(s.Raw),
		requests.ServerVersion(s.Raw)
	return s, nil
}

// discoveryTime bounds each request for what the server has, unless the configuration does: as client-go's discovery.
const discoveryTime = 32 * time.Second

// discovery returns a client for what resources the server has.
func (s *Server) discovery() (*discovery.DiscoveryClient, error) {
	bounded := &http.Client{Transport: s.http.Transport, Timeout: cmp.Or(s.http.Timeout, discoveryTime)}
	return discovery.NewDiscoveryClientForConfigAndClient(s.config, bounded)
}

// Close gives up the network connections that no request uses.
func (s *Server) Close() { s.http.CloseIdleConnections() }
