package fakeapi

import (
	"errors"
	"io"
	"net/http"
)

// errCut is the write error of the server's own handlers after an injected fault has cut their answer.
var errCut = errors.New("the answer was cut by a fault")

// cutBody is a response body that breaks after as many bytes as Fault.AfterBytes says.
type cutBody struct {
	q    *request
	left int
	done bool
}

// body returns the writer for the answer's body, which breaks early if an injected fault says so.
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

// cut breaks an answer that has begun. BreakEOF closes the connection, because a return of the handler would end the
// answer properly.
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
