package demo

import (
	"context"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
)

// Cluster is the API server of the demo. Only Config is safe for concurrent use.
type Cluster interface {
	Label() string
	Notes() []string
	// Config returns a client configuration with that user agent and without client-side throttling.
	Config(userAgent string) *rest.Config
	Stop(ctx context.Context) error
	// Start starts the API server at the old address without its watch history, and returns once the server is ready. A
	// watch from a resourceVersion before Stop is answered with 410.
	Start(ctx context.Context) error
	Requests(ctx context.Context, userAgent string) (Requests, error)
}

// Requests are the numbers of one client's requests for pods, by type of request.
type Requests struct {
	Lists int
	Pages int
	// Probes counts lists with limit=1 that only read the server's resourceVersion. Lookups counts requests for one object
	// by name. Compares counts pages of metadata that an informer compares with its objects.
	Probes   int
	Lookups  int
	Compares int
	// Watches counts watches from a resourceVersion. WatchLists counts watches that begin with all objects.
	Watches    int
	WatchLists int
}

// Count adds a request with that verb and query. It ignores verbs other than "list" and "watch".
func (r *Requests) Count(verb string, query url.Values) {
	switch {
	case verb == "watch" && (query.Get("sendInitialEvents") == "true" || query.Get("resourceVersion") == ""):
		r.WatchLists++
	case verb == "watch":
		r.Watches++
	case verb != "list":
	case strings.Contains(query.Get("fieldSelector"), "metadata.name="):
		r.Lookups++
	case query.Get("timeoutSeconds") != "": // only a metadata comparison has a timeout; an audit log has no Accept header
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

// WholeState returns the number of requests for all objects or for a page of them.
func (r Requests) WholeState() int { return r.Pages + r.WatchLists }
