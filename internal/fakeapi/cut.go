package fakeapi

import (
	"errors"
	"io"
	"net/http"
)

// errCut is what the server's own writers see of an answer that was cut.
var errCut = errors.New("the answer was cut by a fault")

// cutBody is a body that ends after some bytes, as Fault.AfterBytes says.
type cutBody struct {
	q    *request
	left int
	done bool
}

// body is where the answer's body is written to.
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

// cut ends an answer that has begun. A return of the handler would end it properly, so BreakEOF takes the connection
// away.
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
