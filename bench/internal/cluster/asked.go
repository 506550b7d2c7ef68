package cluster

import (
	"context"

	"github.com/larder-dev/larder/bench/internal/load"
)

// Asked counts the requests that an API server received for objects of one kind.
type Asked struct {
	// Lists counts each page of a list, including metadata-only lists, and each watch that begins with a list (WatchList).
	Lists int
	// Probes counts LIST requests that read at most one object: by its name, or with a limit of 1.
	Probes int
	// Total is the number of LIST requests in the server's own counter: Lists without watches, plus Probes.
	Total int
}

// Lists and Probes of a real server come from the audit log, which has the parameters of requests, and Total from
// apiserver_request_total.
func (r *real) Asked(ctx context.Context, kind load.Kind) (a Asked, err error) {
	from := r.mark
	if r.mark, err = r.Mark(); err != nil {
		return a, err
	}
	total, err := r.RequestTotal(ctx, kind.Name, "LIST")
	if err != nil {
		return a, err
	}
	a.Total, r.listed = total-r.listed, total
	requests, err := r.Requests("", from)
	for _, request := range requests {
		switch {
		case request.Resource != kind.Name:
		case request.Probe() || request.Lookup():
			a.Probes++
		case request.Verb == "list" || request.Watch() && request.Query.Get("sendInitialEvents") == "true":
			a.Lists++
		}
	}
	return a, err
}

func (e embedded) Asked(_ context.Context, kind load.Kind) (Asked, error) {
	n := e.Counts(kind.GVR)
	e.ResetCounts()
	a := Asked{Lists: n.Lists + n.Compares, Probes: n.Probes}
	a.Total = a.Lists + a.Probes
	return a, nil
}
