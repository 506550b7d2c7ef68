package demo

import (
	"context"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
)

// Cluster is where the story happens. Its methods are called by one goroutine at
// a time, but for Config.
type Cluster interface {
	// Label names it in the output, such as "kube-apiserver v1.36.3".
	Label() string
	// Notes are lines for people who want to know how the figures come about. May be empty.
	Notes() []string
	// Config returns what a client needs that calls itself userAgent, without client-side throttling.
	Config(userAgent string) *rest.Config
	// Stop makes the API server go away: its port refuses connections.
	Stop(ctx context.Context) error
	// Start brings it back on the same address, without its watch history, and returns when it is ready: a watch from a
	// resourceVersion before Stop's is answered with 410.
	Start(ctx context.Context) error
	// Requests returns what the client that calls itself userAgent has asked about pods so far.
	Requests(ctx context.Context, userAgent string) (Requests, error)
}

// Requests are the requests of one client about pods, by what they cost.
type Requests struct {
	// Lists counts the lists that were begun, Pages the requests that they took.
	Lists int
	Pages int
	// Probes are lists with limit=1 that only ask for the server's resourceVersion; Lookups ask for one object by name.
	// Compares ask for a page of metadata, to compare it with what is held.
	Probes   int
	Lookups  int
	Compares int
	// Watches counts those that begin at a resourceVersion, WatchLists those that ask for the whole state first.
	Watches    int
	WatchLists int
}

// Count counts one request, given its verb ("list", "watch"; others count as nothing) and its query.
func (r *Requests) Count(verb string, query url.Values) {
	switch {
	case verb == "watch" && (query.Get("sendInitialEvents") == "true" || query.Get("resourceVersion") == ""):
		r.WatchLists++
	case verb == "watch":
		r.Watches++
	case verb != "list":
	case strings.Contains(query.Get("fieldSelector"), "metadata.name="):
		r.Lookups++
	case query.Get("timeoutSeconds") != "": // as no other list does; the form is not in an audit log
		r.Compares++
	case query.Get("limit") == "1" && query.Get("continue") == "":
		r.Probes++
	default:
		r.Pages++
		if query.Get("continue") == "" {
			r.Lists++
		}
	}
}

// WholeState is how many requests made the server send all of the state, or a page of it.
func (r Requests) WholeState() int { return r.Pages + r.WatchLists }
