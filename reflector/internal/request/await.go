package request

import (
	"context"
	"net/http/httptrace"
	"sync"
)

// Awaiter is told of HTTP requests.
type Awaiter interface {
	// Await is called when a request begins, and answered when the first byte of its answer has come or it has ended.
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

// Await returns the context for a call that makes HTTP requests, which it reports to by. A request begins when the
// client's rate limiter has let it pass. The caller must call ended when the call has returned.
func Await(ctx context.Context, by Awaiter) (_ context.Context, ended func()) {
	a := &awaiting{by: by}
	trace := &httptrace.ClientTrace{
		GetConn:              func(string) { a.begin() },
		GotConn:              func(httptrace.GotConnInfo) { by.GotConn() },
		GotFirstResponseByte: a.came,
	}
	return httptrace.WithClientTrace(ctx, trace), a.end
}

// begin awaits an answer, unless that is so.
func (a *awaiting) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered == nil && !a.ended {
		a.answered = a.by.Await()
	}
}

// came is called when the first byte of an answer has come.
func (a *awaiting) came() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered != nil {
		a.answered()
		a.answered = nil
	}
}

// end is called when the call has returned. A watch goes on with the context, and awaits nothing any more.
func (a *awaiting) end() {
	a.came()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}
