package serve

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipThreshold is the size of a response's body, in bytes, above which the body is compressed, as in kube-apiserver.
const gzipThreshold = 128 << 10

// outputs are buffers for bodies of responses. Without them each small write would be a chunk and a TLS record.
var outputs = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}

// compressible is a response body that is compressed if it is large and the client accepts gzip.
type compressible struct {
	w     http.ResponseWriter
	takes bool
	// held is the start of the body, kept back until gzipThreshold bytes are written.
	held []byte
	out  io.Writer
	buf  *bufio.Writer
	zip  *gzip.Writer
}

func newCompressible(w http.ResponseWriter, r *http.Request) *compressible {
	return &compressible{w: w, takes: takesGzip(r)}
}

// takesGzip reports whether Accept-Encoding names gzip. Like kube-apiserver it ignores quality values.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(part) == "gzip" {
			return true
		}
	}
	return false
}

func (c *compressible) Write(data []byte) (int, error) {
	if c.out != nil {
		return c.out.Write(data)
	}
	if c.held = append(c.held, data...); len(c.held) < gzipThreshold {
		return len(data), nil
	}
	if c.takes {
		c.w.Header().Set("Content-Encoding", "gzip")
		c.w.Header().Add("Vary", "Accept-Encoding")
	}
	c.buf = outputs.Get().(*bufio.Writer)
	if c.buf.Reset(c.w); c.takes {
		c.zip, _ = gzip.NewWriterLevel(c.buf, gzip.BestSpeed) // NewWriterLevel fails only for an invalid level
		c.out = c.zip
	} else {
		c.out = c.buf
	}
	_, err := c.out.Write(c.held)
	c.held = nil
	return len(data), err
}

func (c *compressible) Close() (err error) {
	if c.out == nil {
		_, err = c.w.Write(c.held)
		return err
	}
	if c.zip != nil {
		err = c.zip.Close()
	}
	if err == nil {
		err = c.buf.Flush()
	}
	c.buf.Reset(nil)
	outputs.Put(c.buf)
	return err
}
