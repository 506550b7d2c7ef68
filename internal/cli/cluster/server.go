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

// Server holds the clients of one API server for all resources of a command. All requests share network connections;
// with HTTP/2 a connection carries about a hundred watches.
type Server struct {
	config *rest.Config
	http   *http.Client
	// Raw makes requests for paths that do not belong to a resource, such as /version.
	Raw rest.Interface
	// Schemas, ClusterID and Version request facts about the server, and cache the answers.
	Schemas   *requests.Schemas
	ClusterID func(ctx context.Context) (string, error)
	Version   func(ctx context.Context) (string, error)
	// Received counts the bytes received from the server on the network, including headers and TLS, with compressed
	// bodies.
	Received meter.Received
}

// NewServer creates the clients of the server in the configuration. It does not contact the server.
func NewServer(config *rest.Config) (*Server, error) {
	s := &Server{}
	s.config = s.Received.Count(config)
	var err error
	if s.http, err = rest.HTTPClientFor(s.config); err != nil {
		return nil, err
	}
	next := s.http.Transport
	s.http.Transport = &sharedTransports{make: func() (rt http.RoundTripper, err error) {
		if rt, next = next, nil; rt == nil {
			// The configuration has a dialer, so TransportFor creates a new transport, whose network connections are not shared
			// with other configurations.
			rt, err = rest.TransportFor(s.config)
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

// discoveryTime limits each discovery request if --request-timeout is not given. It equals client-go's default.
const discoveryTime = 32 * time.Second

func (s *Server) discovery() (*discovery.DiscoveryClient, error) {
	bounded := &http.Client{Transport: s.http.Transport, Timeout: cmp.Or(s.http.Timeout, discoveryTime)}
	return discovery.NewDiscoveryClientForConfigAndClient(s.config, bounded)
}

// Close closes the idle network connections to the API server.
func (s *Server) Close() { s.http.CloseIdleConnections() }
