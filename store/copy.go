package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// copyBuffer is how many bytes CopyTo writes at a time; the last write may be shorter.
const copyBuffer = 256 << 10

// CopyTo writes the file to w as it is at one moment, and returns the number of bytes written. The copy is a store that
// can be opened. Dirty changes are committed first; if that fails they are not in the copy, whose collections then are
// at an older resourceVersion.
//
// Readers and writers do not wait for CopyTo, but pages that become free meanwhile cannot be reused, so the file grows
// with each write. Therefore w should be fast, such as a file. A transaction is open while w is called: w must not use
// the store. CopyTo checks ctx before each write.
//
// If the file cannot be read, or is shorter than it should be, the error wraps ErrDamaged. If w fails, CopyTo returns
// the error of w, or ErrNoSpace.
func (s *Store) CopyTo(ctx context.Context, w io.Writer) (n int64, err error) {
	if err := s.flushForCopy(ctx); err != nil {
		return 0, fmt.Errorf("copy %s: %w", s.file.Path, err)
	}
	out := &copyWriter{ctx: ctx, w: w}
	err = s.file.View(ctx, func(tx *bolt.Tx) error {
		buffered := bufio.NewWriterSize(out, copyBuffer)
		_, err := tx.WriteTo(buffered)
		if err == nil {
			err = buffered.Flush()
		}
		switch {
		case out.err != nil:
			return nil //nolint:nilerr // the writer failed, not the file: settle must not see the error
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return &boltfile.FaultError{What: "the file is shorter than its pages need"}
		}
		return err
	})
	if err = errors.Join(err, out.err); err != nil {
		return out.n, fmt.Errorf("copy %s: %w", s.file.Path, boltfile.ClassifySpace(err))
	}
	return out.n, nil
}

// flushForCopy commits the dirty changes. It logs a failure, and returns an error only if ctx has ended.
func (s *Store) flushForCopy(ctx context.Context) error {
	if s.ReadOnly() || !s.commits.dirty() {
		return ctx.Err()
	}
	if err := s.Flush(ctx); err != nil && ctx.Err() == nil {
		s.logger().Info("What is pending could not be committed before a copy of the store; the copy is older by that", "why",
			err.Error())
	}
	return ctx.Err()
}

// copyWriter writes to w until ctx ends or a write fails.
type copyWriter struct {
	ctx context.Context
	w   io.Writer
	n   int64 // number of bytes written
	err error // error of the last write; nil if it succeeded
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

// CopyFile makes a temporary copy of the file, as CopyTo does, with mode 0600, and returns its name. The caller removes
// it. The copy is not synced, because it is not meant to be kept.
//
// The copy is in the store's directory, which is trusted with the contents and in the same file system. Its name is
// <path>.new-*: if the process dies, the next open for writing removes it. It needs disk space for the part of the file
// that has ever been in use; without it CopyFile fails with ErrNoSpace and leaves nothing. The system's temporary
// directory is not used, because it may be in memory.
func (s *Store) CopyFile(ctx context.Context) (name string, err error) {
	name = s.file.Beside()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("copy %s: %w", s.file.Path, boltfile.ClassifySpace(err))
	}
	_, err = s.CopyTo(ctx, f)
	if closed := f.Close(); err == nil && closed != nil {
		err = fmt.Errorf("copy %s: %w", s.file.Path, boltfile.ClassifySpace(closed))
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(name))
	}
	return name, nil
}

// OpenCopy opens a file that CopyFile has made, for reading, with the keys of the store.
func (s *Store) OpenCopy(ctx context.Context, name string) (*Store, error) {
	return OpenContext(ctx, name, Options{ReadOnly: true, Logger: s.o.Logger, Encryption: s.o.Encryption})
}
