package fakeapi

import (
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault decides what happens to one request; see InjectFault.
type Fault struct {
	// Verb "list", "probe" (a list with limit=1) and "compare" (one with a time-out), which "list" does not match,
	// "watch", "get", "create", "update", "patch", "delete" or "discovery" (all that is about no resource); resource such
	// as "pods". Empty matches any.
	Verb     string
	Resource string
	// Times is how many requests it applies to; 0 is until Clear.
	Times int
	// After is how many matching requests are let through first: page 3 of a list is After 2.
	After int
	// Status, if not 0, is answered as an API error of that code and reason; RetryAfter in seconds.
	Status     int
	Reason     string
	RetryAfter int
	// InStream sends Status as an ERROR event inside a watch, after AfterEvents events, as kube-apiserver sends 410.
	InStream bool
	// Break, if not empty, comes instead of an answer, and in a watch after AfterEvents events. BreakEOF makes an answer
	// that is no stream empty.
	Break       Break
	AfterEvents int
	// AfterBytes lets a list's answer begin: Break comes after that many bytes of the body as it is sent, and BreakEOF
	// ends the connection then, not the answer. A shorter answer comes whole: that is what a slow link does to answers
	// that have a time.
	AfterBytes int
	// Unsorted shuffles a list's items. SwallowEvents drops the events of a watch after AfterEvents silently; bookmarks
	// still come.
	Unsorted      bool
	SwallowEvents bool
}

// Break is a way in which an answer ends.
type Break string

// The ways.
const (
	// BreakEOF ends the stream properly.
	BreakEOF Break = "EOF"
	// BreakReset closes the connection with RST.
	BreakReset Break = "Reset"
	// BreakHang leaves it open and silent until the client goes away (half-open).
	BreakHang Break = "Hang"
)

// faults are those that wait for requests.
type faults struct {
	mu   sync.Mutex
	list []*activeFault // guarded by mu
}

type activeFault struct {
	Fault
	// left counts the requests to come; negative is for ever. faults.mu guards it and skip.
	left, skip int
}

// InjectFault adds a fault; the returned function removes it. Of several that match, the oldest applies.
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

// take returns the fault for a request, or nil.
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

// answer deals with the request if the fault leaves nothing for the server to do.
func (f *activeFault) answer(q *request) bool {
	switch {
	case q.verb == verbWatch && f.InStream:
		return false
	case f.Status != 0:
		writeError(q.w, f.status())
		return true
	case q.verb == verbWatch && (f.AfterEvents > 0 || f.Break == BreakEOF):
		// The watch does it.
		return false
	case q.verb == verbList && f.AfterBytes > 0:
		// What writes the page does it.
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

// end ends the answer. BreakEOF is what the handler's return does.
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
