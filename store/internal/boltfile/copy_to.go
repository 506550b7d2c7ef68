package boltfile

import (
	"bufio"
	"context"
	"errors"
	"io"

	bolt "go.etcd.io/bbolt"
)

const copyBuffer = 256 << 10

// CopyTo writes the committed state of the file to w, in one transaction, and returns the number of bytes. It checks
// ctx before each write. An error of w does not make the File refuse writes.
func (f *File) CopyTo(ctx context.Context, w io.Writer) (n int64, err error) {
	out := &copyWriter{ctx: ctx, w: w}
	err = f.View(ctx, func(tx *bolt.Tx) error {
		buffered := bufio.NewWriterSize(out, copyBuffer)
		_, err := tx.WriteTo(buffered)
		if err == nil {
			err = buffered.Flush()
		}
		switch {
		case out.err != nil:
			return nil //nolint:nilerr // The writer failed, not the file, so Classify must not see the error.
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return &FaultError{What: "the file is shorter than its pages need"}
		}
		return err
	})
	if err = errors.Join(err, out.err); err != nil {
		err = ClassifySpace(err)
	}
	return out.n, err
}

// copyWriter writes to w until ctx ends or a write fails.
type copyWriter struct {
	ctx context.Context
	w   io.Writer
	n   int64 // n is the number of bytes written so far.
	err error
}

func (c *copyWriter) Write(p []byte) (n int, err error) {
	if err := c.ctx.Err(); err != nil {
		c.err = err
		return 0, err
	}
	n, err = c.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	c.n, c.err = c.n+int64(n), err
	return n, err
}
