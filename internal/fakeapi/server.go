// Package fakeapi is an embedded Kubernetes API server for demos, tests and benchmarks.
package fakeapi

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Resource is one resource that the server serves.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Singular   string
	ShortNames []string
	Namespaced bool
}

// Options are the options of New. The zero value works.
type Options struct {
	// Resources served besides pods, configmaps, secrets, nodes, namespaces
	// and deployments: custom resources, JSON only.
	Resources []Resource
	// StartRV is the resourceVersion that the first write gets. Default 1000.
	StartRV uint64
}

// Server is the state (objects, history, counters, faults); Start serves it.
type Server struct{}

// New returns a server that does not listen yet.
func New(o Options) *Server { return &Server{} }

// Start listens on a loopback port, the same one after Stop, and returns when requests are served.
func (s *Server) Start() error { return nil }

// Stop closes the listener and every connection and waits for all goroutines. The objects stay.
func (s *Server) Stop() {}

// Restart is Stop, the loss of the watch history (older RVs get 410), Start.
func (s *Server) Restart() error { return nil }

// Config returns a rest.Config for the server.
func (s *Server) Config() *rest.Config { return nil }

// Compact drops the watch history: a watch from any older RV gets 410, and so do continue tokens.
func (s *Server) Compact() {}

// Bookmark sends a bookmark with the current RV on every open watch that allows them.
func (s *Server) Bookmark() {}

// RV returns the current resourceVersion.
func (s *Server) RV() string { return "" }

// Create, Update and Delete write one object and return it as stored (with UID, RV, creationTimestamp).
func (s *Server) Create(gvr schema.GroupVersionResource, obj runtime.Object) (*unstructured.Unstructured, error) {
	return nil, nil
}

// Update replaces the object of that name.
func (s *Server) Update(gvr schema.GroupVersionResource, obj runtime.Object) (*unstructured.Unstructured, error) {
	return nil, nil
}

// Delete removes an object.
func (s *Server) Delete(gvr schema.GroupVersionResource, namespace, name string) error { return nil }

// List returns every object of the resource in key order.
func (s *Server) List(gvr schema.GroupVersionResource) []unstructured.Unstructured { return nil }

// Snapshot returns the whole state (as an etcd backup); Restore goes back to it: RVs, objects and
// history are as they were then, and counting goes on from there.
func (s *Server) Snapshot() *Snapshot { return nil }

// Restore: see Snapshot. Every connection is closed.
func (s *Server) Restore(*Snapshot) {}

// Snapshot is a state of the server.
type Snapshot struct{}

// Counts are requests served since the start, or since ResetCounts.
type Counts struct {
	Lists, Probes, Watches, Gets, Discovery, Writes int
	// ListedObjects and SentEvents count what was sent.
	ListedObjects, SentEvents int
	// BytesSent on the wire, headers included.
	BytesSent int64
}

// Counts returns the counters for one resource, or for all of them with the empty one.
// A list with limit=1 and no continue token is a probe.
func (s *Server) Counts(gvr schema.GroupVersionResource) Counts { return Counts{} }

// ResetCounts sets every counter to zero.
func (s *Server) ResetCounts() {}

// Requests returns a line per request served since ResetCounts: verb, path and query.
func (s *Server) Requests() []string { return nil }

// Fault decides what happens to one request; see InjectFault.
type Fault struct {
	// Verb "list" or "watch", resource: empty matches any.
	Verb     string
	Resource string
	// Times is how many requests it applies to; 0 is until Clear.
	Times int
	// Status, if not 0, is answered as an API error of that code and reason; RetryAfter in seconds.
	Status     int
	Reason     string
	RetryAfter int
	// Reset closes the connection with RST instead of an answer, or, with AfterEvents, after that many events.
	Reset bool
	// EOF ends the stream properly after AfterEvents events.
	EOF bool
	// Hang accepts and sends nothing until the client goes away (half-open).
	Hang        bool
	AfterEvents int
	// Unsorted shuffles a list's items. SwallowEvents drops events silently.
	Unsorted      bool
	SwallowEvents bool
}

// InjectFault adds a fault; the returned function removes it.
func (s *Server) InjectFault(f Fault) (clear func()) { return func() {} }

// Wait blocks until n watches of the resource are open.
func (s *Server) WaitWatches(ctx context.Context, gvr schema.GroupVersionResource, n int) error {
	return nil
}
