package request

import (
	"context"
	"net/http/httptrace"
	"sync"
)

type Awaiter interface {
	// Await is called when an HTTP request begins. The returned function is called when the first byte of the answer
	// has arrived, or when the request has ended.
	Await() (answered func())
	GotConn()
}

// awaiting is the state of one call of a ListerWatcher, which may make several HTTP requests, one after the other.
type awaiting struct {
	by Awaiter

	mu sync.Mutex
	// ended is true once the ListerWatcher's call has returned. mu guards ended.
	ended bool
	// answered is the result of Awaiter.Await; nil while no answer is awaited. mu guards answered.
	answered func()
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

func (a *awaiting) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered == nil && !a.ended {
		a.answered = a.by.Await()
	}
}

func (a *awaiting) firstByte() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered != nil {
		a.answered()
		a.answered = nil
	}
}

// end is called when the ListerWatcher's call has returned. A watch keeps using the call's context, but its further
// requests are not reported.
func (a *awaiting) end() {
	a.firstByte()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}
