package fakeapi

import (
	"errors"
	"io"
	"net/http"
)

// errCut is returned to the server's own writers of an answer that a fault has cut.
var errCut = errors.New("the answer was cut by a fault")

// cutBody is a body that breaks after Fault.AfterBytes bytes.
type cutBody struct {
	q    *request
	left int
	done bool
}

// body returns the writer for the answer's body.
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

// cut ends an answer that has begun. BreakEOF closes the connection, since a return of the handler would end the answer
// properly.
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
