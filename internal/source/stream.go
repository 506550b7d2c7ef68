package source

import (
	"bufio"
	"context"
	"encoding/gob"
	"io"
	"net/http"
	"sync"
)

// streamBuffer is how many bytes of a stream go out at a time.
const streamBuffer = 64 << 10

// stream writes a streamed answer. Its methods may be called concurrently.
type stream struct {
	control *http.ResponseController

	mu  sync.Mutex
	out *bufio.Writer // guarded by mu
	enc *gob.Encoder  // guarded by mu; writes to out
}

func newStream(w http.ResponseWriter) *stream {
	out := bufio.NewWriterSize(w, streamBuffer)
	return &stream{control: http.NewResponseController(w), out: out, enc: gob.NewEncoder(out)}
}

// send sends a frame. It is at the client after a flush at the latest.
func (s *stream) send(f frame, flush bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enc.Encode(f); err != nil || !flush {
		return err
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	return s.control.Flush()
}

// end sends the last frame. A client that has gone does not hear it.
func (s *stream) end(e ending, err error) {
	f := frame{End: &e}
	if err != nil {
		f = frame{Failure: newErrorBody(err)}
	}
	_ = s.send(f, true)
}

// Write implements io.Writer, for the data of a snapshot.
func (s *stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return len(p), s.send(frame{Data: p}, false)
}

// frames reads a streamed answer.
type frames struct {
	ctx  context.Context
	body io.ReadCloser
	dec  *gob.Decoder
	data []byte // what Read has yet to return
}

func newFrames(ctx context.Context, body io.ReadCloser) *frames {
	return &frames{ctx: ctx, body: body, dec: gob.NewDecoder(bufio.NewReaderSize(body, streamBuffer))}
}

// next returns the next frame. It fails with the error that the sync has met, and with errBroken if the answer is not
// whole.
func (f *frames) next() (next frame, err error) {
	if err := f.dec.Decode(&next); err != nil {
		return frame{}, broken(f.ctx, err)
	}
	if next.Failure != nil {
		return frame{}, next.Failure.err()
	}
	return next, nil
}

// Read implements io.Reader, for the data of a snapshot.
func (f *frames) Read(p []byte) (int, error) {
	for len(f.data) == 0 {
		next, err := f.next()
		if err != nil {
			return 0, err
		}
		if next.End != nil {
			return 0, io.EOF
		}
		f.data = next.Data
	}
	n := copy(p, f.data)
	f.data = f.data[n:]
	return n, nil
}

// Close implements io.Closer.
func (f *frames) Close() error { return f.body.Close() }
