package serve

import (
	"net/http"
	"sync"
	"time"
)

const (
	// writeWithin is the write deadline of a long-running response; each write extends the deadline. To save calls, the
	// deadline is set again only after extendAfter, so it may be up to extendAfter earlier.
	writeWithin = 2 * time.Minute
	extendAfter = 30 * time.Second
	// endWithin is the write deadline of a long-running response once Handler.Close has been called.
	endWithin = 2 * time.Second
)

// writeDeadline bounds how long the client of one request may take to read. Without a deadline, a client that stopped
// reading but whose kernel still answers would block a write, and Handler.Close, without limit.
type writeDeadline struct {
	control *http.ResponseController

	mu sync.Mutex
	// ended is true once the deadline no longer changes. mu guards ended and set.
	ended bool
	set   time.Time
}

func (d *writeDeadline) extend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); !d.ended && now.Sub(d.set) > extendAfter {
		d.set = now
		_ = d.control.SetWriteDeadline(now.Add(writeWithin)) // SetWriteDeadline fails if the connection has no deadlines
	}
}

// shorten sets the deadline to endWithin from now. Later calls of extend do not change the deadline.
func (d *writeDeadline) shorten() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended {
		d.ended = true
		_ = d.control.SetWriteDeadline(time.Now().Add(endWithin))
	}
}

// end makes later calls leave the deadline unchanged, because the request has been answered.
func (d *writeDeadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}

type deadlineWriter struct {
	http.ResponseWriter
	writeDeadline *writeDeadline
}

func (w deadlineWriter) Write(data []byte) (int, error) {
	w.writeDeadline.extend()
	return w.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach the inner writer.
func (w deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
