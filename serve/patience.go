package serve

import (
	"net/http"
	"sync"
	"time"
)

const (
	// writeWithin is the write deadline of a long-running response, extended with each write. The deadline is renewed
	// only after extendAfter, so it may be up to extendAfter earlier.
	writeWithin = 2 * time.Minute
	extendAfter = 30 * time.Second
	// endWithin is the write deadline once Close has been called.
	endWithin = 2 * time.Second
)

// writeDeadline bounds how long the client of one request may take to read. Without it, a client that has stopped
// reading but whose kernel still answers would block a write, and Close, without limit.
type patience struct {
	control *http.ResponseController

	mu    sync.Mutex
	ended bool      // the deadline is final; guarded by mu
	set   time.Time // time of the last extension; guarded by mu
}

// extend sets the deadline to writeWithin from now. Call it before a write.
func (p *patience) extend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !p.ended && now.Sub(p.set) > extendAfter {
		p.set = now
		_ = p.control.SetWriteDeadline(now.Add(writeWithin)) // it fails if the connection has no deadlines
	}
}

// shorten sets the deadline to endWithin from now. It is final.
func (p *patience) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended = true
		_ = p.control.SetWriteDeadline(time.Now().Add(endWithin)) // it fails if the connection has no deadlines
	}
}

// end stops changes of the deadline, at the end of the request.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// deadlineWriter is a ResponseWriter that extends the deadline with each write.
type patientWriter struct {
	http.ResponseWriter
	patience *patience
}

// Write implements http.ResponseWriter.
func (w patientWriter) Write(data []byte) (int, error) {
	w.patience.extend()
	return w.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach the inner writer.
func (w patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
