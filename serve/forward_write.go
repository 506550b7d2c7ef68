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

// writeHead is how much of the answer to a write is read for its resourceVersion, in bytes.
const writeHead = 64 << 10

// answeredKey is the context's key for a func(*http.Response) that is called before the client sees the answer of the
// API server.
type answeredKey struct{}

// errUnreached ends a forwarded read that the API server does not answer in time.
var errUnreached = errors.New("the API server does not answer in time")

// forwardRead forwards a read. While the API server cannot be reached, or does not begin to answer within freshFor,
// local answers, and the user's writes are forgotten: what is mirrored is the latest state that there is.
func (q *request) forwardRead(local func() error) (err error) {
	ctx, cancel := context.WithCancelCause(q.ctx)
	defer cancel(nil)
	slow := time.AfterFunc(freshFor, func() { cancel(errUnreached) })
	defer slow.Stop()
	ctx = context.WithValue(ctx, answeredKey{}, func(*http.Response) { slow.Stop() })
	warnings := q.w.Header().Values("Warning")
	q.w.Header().Del("Warning") // the API server sends its own
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

// writesTo reports whether the request may change objects of a resource that is mirrored.
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

// mirrors reports whether a version of a resource is mirrored, also under the name that newWriter replaces.
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

// written notes the write that the API server answers. A refusal may show that the collection is behind, too: a
// conflict, an object that exists already or is gone. After a time-out the outcome is unknown.
func (q *request) written(answer *http.Response) {
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
	case code == http.StatusConflict, code == http.StatusNotFound, code == http.StatusGatewayTimeout:
	default:
		return
	}
	rv := uint64(0)
	if q.r.Method != http.MethodDelete { // whose answer has none, or may have that of the state before
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

// writtenRV returns the resourceVersion of the write that is answered with an object; 0 if the object does not show it.
// kube-apiserver answers the removal of the last finalizer, which deletes, with the object as it was before.
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
	rv, _ := strconv.ParseUint(m.ResourceVersion, 10, 64) // 0 for one that is no number: it cannot be compared
	return rv
}
