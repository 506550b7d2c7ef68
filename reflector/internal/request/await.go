package request

import (
	"context"
	"net/http/httptrace"
	"sync"
)

// Awaiter receives the progress of HTTP requests.
type Awaiter interface {
	// Await is called when a request begins. answered is called when the first byte of its answer has arrived or it has
	// ended.
	Await() (answered func())
	// GotConn is called when a request has got a network connection.
	GotConn()
}

// awaiting is a call that makes HTTP requests, one after the other.
type awaiting struct {
	by Awaiter

	mu       sync.Mutex
	ended    bool   // guarded by mu
	answered func() // guarded by mu; nil while no answer is awaited
}

// Await returns the context for a call that makes HTTP requests, and reports these requests to by. A request begins
// when the client's rate limiter has admitted it. The caller must call ended when the call has returned.
func Await(ctx context.Context, by Awaiter) (_ context.Context, ended func()) {
	a := &awaiting{by: by}
	trace := &httptrace.ClientTrace{
		GetConn:              func(string) { a.begin() },
		GotConn:              func(httptrace.GotConnInfo) { by.GotConn() },
		GotFirstResponseByte: a.firstByte,
	}
	return httptrace.WithClientTrace(ctx, trace), a.end
}

// begin calls Awaiter.Await, unless an answer is awaited already.
func (a *awaiting) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered == nil && !a.ended {
		a.answered = a.by.Await()
	}
}

// firstByte is called when the first byte of an answer has arrived.
func (a *awaiting) firstByte() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered != nil {
		a.answered()
		a.answered = nil
	}
}

// end is called when the call has returned. A watch keeps using the context, but awaits no further answer.
func (a *awaiting) end() {
	a.firstByte()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}
