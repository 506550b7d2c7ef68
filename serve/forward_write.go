package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// writeHead is the maximum size, in bytes, of a write's response that is searched for a resourceVersion.
const writeHead = 64 << 10

// answeredKey is the context key of a function that receives the response to a forwarded write before the client.
type answeredKey struct{}

// errUnreached is the cause with which a forwarded read is canceled if the API server does not begin to answer in time.
var errUnreached = errors.New("the API server does not answer in time")

// forwardRead forwards a read to the API server. If the API server is unreachable, or does not begin to answer within
// freshFor, local answers from the mirrored objects. Further reads then do not wait for the user's earlier writes to
// the resource, because the mirror has the latest state available.
func (q *request) forwardRead(local func() error) (err error) {
	ctx, cancel := context.WithCancelCause(q.ctx)
	defer cancel(nil)
	slow := time.AfterFunc(freshFor, func() { cancel(errUnreached) })
	defer slow.Stop()
	ctx = context.WithValue(ctx, answeredKey{}, func(*http.Response) { slow.Stop() })
	warnings := q.w.Header().Values("Warning")
	q.w.Header().Del("Warning") // the API server sends its own warnings
	q.Handler.options.Forward.serveOr(q.w, q.r.WithContext(ctx), http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) {
			q.writes.forget(newWriter(q.lease.user, q.path.GroupResource()))
			for _, warning := range warnings {
				q.w.Header().Add("Warning", warning)
			}
			err = local()
		}))
	return err
}

func (q *request) writesTo() bool {
	switch q.r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	if q.path.Resource == "" || q.r.URL.Query().Has("dryRun") {
		return false
	}
	switch connects, _, _ := strings.Cut(q.path.subresource, "/"); connects {
	case "attach", "exec", "portforward", "proxy":
		return false
	}
	known, err := q.catalog.all(q.ctx)
	return err != nil || known.mirrors(newWriter("", q.path.GroupResource()).resource)
}

// mirrors reports whether any version of a resource, as newWriter names it, is mirrored.
func (k *known) mirrors(r schema.GroupResource) bool {
	for gvr := range k.kinds {
		if newWriter("", gvr.GroupResource()).resource == r {
			return true
		}
	}
	for gvr := range k.expected {
		if newWriter("", gvr.GroupResource()).resource == r {
			return true
		}
	}
	return false
}

// written adds a forwarded write to the user's writes after the API server's response, so that the user's later reads
// wait for it. A 409 or 404 counts as a write, since it may show that the mirrored objects are stale. A 504 counts too,
// since the outcome is unknown.
func (q *request) written(answer *http.Response) {
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
	case code == http.StatusConflict, code == http.StatusNotFound, code == http.StatusGatewayTimeout:
	default:
		return
	}
	rv := uint64(0)
	if q.r.Method != http.MethodDelete { // the response to a DELETE has no resourceVersion, or the previous one
		head, err := io.ReadAll(io.LimitReader(answer.Body, writeHead))
		if err == nil && len(head) < writeHead && answer.StatusCode < 300 {
			rv = writtenRV(head)
		}
		body := io.MultiReader(bytes.NewReader(head), answer.Body)
		answer.Body = struct {
			io.Reader
			io.Closer
		}{body, answer.Body}
	}
	q.writes.add(newWriter(q.lease.user, q.path.GroupResource()), q.path.namespace, rv, time.Now())
}

// writtenRV returns the resourceVersion of the object in the response to a write; 0 if the response has none. It also
// returns 0 if the write removed the last finalizer of a deleted object: kube-apiserver then responds with the object's
// previous state.
func writtenRV(body []byte) uint64 {
	var m metav1.PartialObjectMetadata
	if message, ok := bytes.CutPrefix(body, []byte(protobufMagic)); ok {
		var envelope runtime.Unknown
		if envelope.Unmarshal(message) != nil || m.Unmarshal(envelope.Raw) != nil {
			return 0
		}
	} else if json.Unmarshal(body, &m) != nil {
		return 0
	}
	if m.DeletionTimestamp != nil && len(m.Finalizers) == 0 {
		return 0
	}
	// ParseUint returns 0 for a resourceVersion that is not a number and so cannot be compared.
	rv, _ := strconv.ParseUint(m.ResourceVersion, 10, 64)
	return rv
}
