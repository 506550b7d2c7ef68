package serve

import (
	"net/http"
	"sync"
	"time"
)

const (
	// writeWithin is how long a client of an answer that lasts may take to read what is written, and up to extendAfter
	// less.
	writeWithin = 2 * time.Minute
	extendAfter = 30 * time.Second
	// endWithin is how long a client may take once the Handler is being closed.
	endWithin = 2 * time.Second
)

// patience bounds how long one request's client may take to read. A client that has stopped, and whose kernel still
// answers, would otherwise hold a write, and those who wait for it, for as long as it likes.
type patience struct {
	control *http.ResponseController

	mu    sync.Mutex
	ended bool      // no time is given any more; guarded by mu
	set   time.Time // when time was given last; guarded by mu
}

// extend gives the client writeWithin, before something is written.
func (p *patience) extend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !p.ended && now.Sub(p.set) > extendAfter {
		p.set = now
		_ = p.control.SetWriteDeadline(now.Add(writeWithin)) // it fails if the connection has none
	}
}

// hurry gives the client endWithin, and nothing after that.
func (p *patience) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended = true
		_ = p.control.SetWriteDeadline(time.Now().Add(endWithin)) // it fails if the connection has none
	}
}

// end says that the request is over.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// patientWriter is a ResponseWriter that extends a client's time with each write.
type patientWriter struct {
	http.ResponseWriter
	patience *patience
}

// Write implements http.ResponseWriter.
func (w patientWriter) Write(data []byte) (int, error) {
	w.patience.extend()
	return w.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (w patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
