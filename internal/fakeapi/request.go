package fakeapi

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type request struct {
	w http.ResponseWriter
	r *http.Request

	kind      *kind
	namespace string
	name      string
	verb      string
	options   listOptions
	repr      representation

	fault    *activeFault
	stopping <-chan struct{}
	// hijacked is true if the handler has taken the connection from net/http.
	hijacked bool
}

// Values of Fault.Verb and of the verb in the request log.
const (
	verbList       = "list"
	verbProbe      = "probe"
	verbCompare    = "compare"
	verbWatch      = "watch"
	verbGet        = "get"
	verbCreate     = "create"
	verbUpdate     = "update"
	verbPatch      = "patch"
	verbDelete     = "delete"
	verbCollection = "deletecollection"
	verbDiscovery  = "discovery"
)

func (s *Server) handler(stopping <-chan struct{}, conns *connections) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		gv, rest, ok := groupVersionOf(parts)
		q := &request{w: w, r: r, stopping: stopping}
		if ok && !s.available(gv) {
			s.requestLog.request(schema.GroupVersionResource{}, verbDiscovery, r)
			writeError(w, errAway())
			return
		}
		if !ok || len(rest) == 0 {
			s.serveDiscovery(q, parts)
		} else if err := s.parse(q, gv, rest); err != nil {
			s.countRefused(q)
			writeError(w, err)
			return
		} else {
			s.serveResource(q)
		}
		if q.hijacked {
			conns.hijacked(connOf(r))
		}
	})
}

// countRefused counts a request that could not be parsed, for its resource and verb. If these are unknown, it counts
// the request as discovery.
func (s *Server) countRefused(q *request) {
	if q.kind == nil || q.verb == "" {
		s.requestLog.request(schema.GroupVersionResource{}, verbDiscovery, q.r)
		return
	}
	s.requestLog.request(q.kind.GroupVersionResource, q.verb, q.r)
}

func groupVersionOf(parts []string) (gv schema.GroupVersion, rest []string, ok bool) {
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		return schema.GroupVersion{Version: parts[1]}, parts[2:], true
	case len(parts) >= 3 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:], true
	}
	return gv, nil, false
}

func (s *Server) parse(q *request, gv schema.GroupVersion, rest []string) error {
	if rest[0] == "namespaces" && len(rest) > 2 && s.kinds[gv.WithResource(rest[2])] != nil {
		q.namespace, rest = rest[1], rest[2:]
	}
	q.kind = s.kinds[gv.WithResource(rest[0])]
	if q.kind == nil || !s.serves(q.kind.GroupVersionResource) || len(rest) > 2 ||
		q.namespace != "" && !q.kind.Namespaced {
		return errNoSuchPath()
	}
	if len(rest) > 1 {
		q.name = rest[1]
	}
	options, err := parseListOptions(q.r.URL.Query(), q.kind, gates{s.release.watchList(), s.sharding})
	q.options = options
	q.verb = verbOf(q)
	if err != nil {
		return err
	}
	if q.verb == "" {
		return apierrors.NewMethodNotSupported(q.kind.GroupResource(), q.r.Method)
	}
	q.repr, err = negotiate(q.r.Header.Get("Accept"), q.kind)
	return err
}

func verbOf(q *request) string {
	switch {
	case q.r.Method == http.MethodGet && q.options.Watch:
		return verbWatch
	case q.r.Method == http.MethodGet && q.name != "":
		return verbGet
	case q.r.Method == http.MethodGet && q.options.Continue == "" && q.options.TimeoutSeconds != nil:
		return verbCompare
	case q.r.Method == http.MethodGet && q.options.Limit == 1 && q.options.Continue == "":
		return verbProbe
	case q.r.Method == http.MethodGet:
		return verbList
	case q.r.Method == http.MethodPost && q.name == "":
		return verbCreate
	case q.r.Method == http.MethodPut && q.name != "":
		return verbUpdate
	case q.r.Method == http.MethodPatch && q.name != "":
		return verbPatch
	case q.r.Method == http.MethodDelete && q.name != "":
		return verbDelete
	case q.r.Method == http.MethodDelete:
		return verbCollection
	}
	return ""
}

func (s *Server) serveResource(q *request) {
	counter := s.requestLog.request(q.kind.GroupVersionResource, q.verb, q.r)
	if conn := connOf(q.r); conn != nil {
		conn.counter.Store(counter)
	}
	if q.fault = s.faults.take(q.verb, q.kind.GroupVersionResource.Resource); q.fault != nil && q.fault.answer(q) {
		return
	}
	var err error
	switch q.verb {
	case verbList, verbProbe, verbCompare:
		err = s.serveList(q)
	case verbWatch:
		err = s.serveWatch(q)
	case verbGet:
		err = s.serveGet(q)
	default:
		err = s.serveWrite(q)
	}
	if err != nil && !q.hijacked {
		writeError(q.w, err)
	}
}

func (s *Server) serveGet(q *request) error {
	o := s.get(q.kind, q.namespace, q.name)
	if o == nil {
		return apierrors.NewNotFound(q.kind.GroupResource(), q.name)
	}
	return q.writeObject(http.StatusOK, o)
}

func (q *request) writeObject(code int, o *object) error {
	body, err := o.standalone(q.repr)
	if err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", q.repr.contentType())
	q.w.WriteHeader(code)
	_, _ = q.w.Write(body)
	return nil
}
