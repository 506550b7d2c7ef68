package demo

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/internal/fakeapi"
)

// Embedded is a Cluster that runs the fake API server in this process.
type Embedded struct{ server *fakeapi.Server }

var _ Cluster = (*Embedded)(nil)

// StartEmbedded starts a server on a free loopback port. The caller closes it.
func StartEmbedded() (*Embedded, error) {
	server := fakeapi.New(fakeapi.Options{})
	return &Embedded{server: server}, server.Start()
}

// Close stops the server and waits for its goroutines.
func (e *Embedded) Close() { e.server.Stop() }

// Label implements Cluster.
func (e *Embedded) Label() string { return "embedded API server" }

// Notes implements Cluster.
func (e *Embedded) Notes() []string {
	return []string{
		"The API server runs in this process and speaks real HTTP on loopback; its times are not a cluster's.",
		"Requests are counted by the server, bytes by the clients' dialer.",
	}
}

// Config implements Cluster.
func (e *Embedded) Config(userAgent string) *rest.Config {
	config := e.server.Config()
	config.UserAgent = userAgent
	return config
}

// Stop implements Cluster.
func (e *Embedded) Stop(context.Context) error {
	e.server.Stop()
	return nil
}

// Start implements Cluster.
func (e *Embedded) Start(context.Context) error {
	e.server.Compact()
	return e.server.Start()
}

// Requests implements Cluster.
func (e *Embedded) Requests(_ context.Context, userAgent string) (Requests, error) {
	var sum Requests
	for _, r := range e.server.Log() {
		if r.UserAgent != userAgent || r.Resource != "pods" {
			continue
		}
		verb := r.Verb
		if verb == "probe" {
			verb = "list"
		}
		sum.Count(verb, r.Query)
	}
	return sum, nil
}
