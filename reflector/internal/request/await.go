package request

import (
	"context"
	"net/http/httptrace"
	"sync"
)

// awaiting is a call that makes HTTP requests, one after the other.
type awaiting struct {
	await func() (answered func())

	mu       sync.Mutex
	ended    bool   // guarded by mu
	answered func() // guarded by mu; nil while no answer is awaited
}

// Await returns the context for a call that makes HTTP requests. It calls await when the call makes a request, once the
// client's rate limiter has let it pass, and the function that await returns when the first byte of the answer has
// come. The caller must call ended when the call has returned.
func Await(ctx context.Context, await func() (answered func())) (_ context.Context, ended func()) {
	a := &awaiting{await: await}
	trace := &httptrace.ClientTrace{
		GetConn:              func(string) { a.begin() },
		GotFirstResponseByte: a.came,
	}
	return httptrace.WithClientTrace(ctx, trace), a.end
}

// begin awaits an answer, unless that is so.
func (a *awaiting) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answered == nil && !a.ended {
		a.answered = a.await()
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
