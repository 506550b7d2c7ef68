package fakeapi

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is a failure that Server.InjectFault causes in the answers to matching requests.
type Fault struct {
	// Verb and Resource select the requests; empty matches any. Resource is a plural name such as "pods". Verb is one
	// of
	//   - "list", except probes and compares;
	//   - "probe", a list with limit=1;
	//   - "compare", a list with a timeout;
	//   - "watch", "get", "create", "update", "patch" or "delete";
	//   - "discovery", any request that is not for a resource.
	Verb     string
	Resource string
	// Times is the number of requests with this fault; 0 means all requests until the function that InjectFault returned
	// is called.
	Times int
	// After is the number of matching requests that are first answered normally: for page 3 of a list After is 2.
	After int
	// Status, if not 0, is the HTTP code of an API error with Reason as the answer. RetryAfter is in seconds.
	Status     int
	Reason     string
	RetryAfter int
	// InStream sends Status as an ERROR event of a watch, after AfterEvents events. kube-apiserver reports an expired
	// resourceVersion (410) in this form.
	InStream bool
	// Break, if not empty, ends a request without an answer, or ends a watch after AfterEvents events. With BreakEOF the
	// answer to a request other than a watch is empty.
	Break       Break
	AfterEvents int
	// AfterBytes, if not 0, applies Break after that many bytes of a list's body as sent (compressed or not). BreakEOF
	// then closes the connection. A shorter body is sent completely. So the fault resembles a slow connection, on which
	// only large answers reach a timeout.
	AfterBytes int
	// Unsorted shuffles a list's items. SwallowEvents silently drops the events of a watch after the first AfterEvents,
	// but not its bookmarks.
	Unsorted      bool
	SwallowEvents bool
}

// Break is a way to end the answer to a request.
type Break string

const (
	// BreakEOF ends the stream properly.
	BreakEOF Break = "EOF"
	// BreakReset closes the connection with RST.
	BreakReset Break = "Reset"
	// BreakHang leaves the connection open and silent until the client closes it (half-open).
	BreakHang Break = "Hang"
)

type faults struct {
	mu   sync.Mutex
	list []*activeFault // injected faults, oldest first; mu guards list
}

type activeFault struct {
	Fault
	// left is the number of further requests with this fault; a negative number means no limit. skip is the number of
	// requests that are answered normally before. faults.mu guards left and skip.
	left, skip int
}

// InjectFault adds a fault; the returned function removes the fault. If several faults match a request, the oldest
// applies.
func (fs *faults) InjectFault(f Fault) (clear func()) {
	active := &activeFault{Fault: f, left: f.Times, skip: f.After}
	if f.Times == 0 {
		active.left = -1
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = append(fs.list, active)
	return func() {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.list = slices.DeleteFunc(fs.list, func(a *activeFault) bool { return a == active })
	}
}

// take returns the oldest fault that applies to a request, or nil. It decrements Times of that fault, and After of
// older faults that match.
func (fs *faults) take(verb, resource string) *activeFault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.list {
		if f.left == 0 || f.Verb != "" && f.Verb != verb || f.Resource != "" && f.Resource != resource {
			continue
		}
		if f.skip > 0 {
			f.skip--
			continue
		}
		if f.left > 0 {
			f.left--
		}
		return f
	}
	return nil
}

// answer sends the answer of the injected fault. It returns false if the server must answer the request itself.
func (f *activeFault) answer(q *request) bool {
	switch {
	case q.verb == verbWatch && f.InStream:
		return false
	case f.Status != 0:
		writeError(q.w, f.status())
		return true
	case q.verb == verbWatch && (f.AfterEvents > 0 || f.Break == BreakEOF):
		// The watch handler applies the fault, after the first events or at the end of the stream.
		return false
	case q.verb == verbList && f.AfterBytes > 0:
		// The writer of the list's body applies the fault, after AfterBytes bytes.
		return false
	case f.Break != "":
		q.end(f.Break)
		return true
	}
	return false
}

func (f *activeFault) status() error {
	reason := metav1.StatusReason(f.Reason)
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: int32(f.Status), Reason: reason,
		Message: "injected fault: " + http.StatusText(f.Status),
	}
	if f.RetryAfter > 0 {
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(f.RetryAfter)}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// end breaks an answer. BreakEOF needs no action, because the return of the handler ends the answer.
func (q *request) end(how Break) {
	switch how {
	case BreakReset:
		conn, _, err := http.NewResponseController(q.w).Hijack()
		if err != nil {
			return
		}
		q.hijacked = true
		if counted, ok := conn.(*countedConn); ok {
			counted.reset()
		}
		_ = conn.Close()
	case BreakHang:
		select {
		case <-q.r.Context().Done():
		case <-q.stopping:
		}
	}
}

// errCut is the write error of the server's own handlers after an injected fault has cut their answer.
var errCut = errors.New("the answer was cut by a fault")

// cutBody is a response body that breaks after as many bytes as Fault.AfterBytes says.
type cutBody struct {
	q    *request
	left int
	done bool
}

// body returns the writer for the answer's body, which breaks early if an injected fault says so.
func (q *request) body() io.Writer {
	if q.fault == nil || q.fault.AfterBytes == 0 {
		return q.w
	}
	return &cutBody{q: q, left: q.fault.AfterBytes}
}

func (b *cutBody) Write(p []byte) (int, error) {
	if b.done {
		return 0, errCut
	}
	if len(p) <= b.left {
		b.left -= len(p)
		return b.q.w.Write(p)
	}
	n, _ := b.q.w.Write(p[:b.left])
	b.done = true
	_ = http.NewResponseController(b.q.w).Flush()
	b.q.cut(b.q.fault.Break)
	return n, errCut
}

// cut breaks an answer that has begun. BreakEOF closes the connection, because a return of the handler would end the
// answer properly.
func (q *request) cut(how Break) {
	if how != BreakEOF {
		q.end(how)
		return
	}
	conn, _, err := http.NewResponseController(q.w).Hijack()
	if err != nil {
		return
	}
	q.hijacked = true
	_ = conn.Close()
}
