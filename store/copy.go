package store

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// copyBuffer is how much CopyTo gives to its writer at a time, but for the ends.
const copyBuffer = 256 << 10

// CopyTo writes the file to w as it is at one moment, and returns how many bytes that are: the copy is a store of its
// own, which opens. What is pending is committed before, as far as it can be; what cannot be is not in the copy, whose
// collections then are at an older resourceVersion.
//
// Nobody waits for it, neither those who read nor those who write, but pages that become free meanwhile are not used
// again: the file grows by what is written. So w should be fast, such as a file; w is called while a transaction is
// open and must not use the store. ctx is looked at between two writes.
//
// A file that cannot be read, or is shorter than it should be, is an error that wraps ErrDamaged. What a writer can
// not take is its own error, or ErrNoSpace.
func (s *Store) CopyTo(ctx context.Context, w io.Writer) (n int64, err error) {
	if err := s.flushForCopy(ctx); err != nil {
		return 0, fmt.Errorf("copy %s: %w", s.path, err)
	}
	out := &copyWriter{ctx: ctx, w: w}
	err = s.view(ctx, func(tx *bolt.Tx) error {
		buffered := bufio.NewWriterSize(out, copyBuffer)
		_, err := tx.WriteTo(buffered)
		if err == nil {
			err = buffered.Flush()
		}
		switch {
		case out.err != nil:
			return nil //nolint:nilerr // the file is not to blame: not for settle
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return &boltfile.FaultError{What: "the file is shorter than its pages need"}
		}
		return err
	})
	if err = errors.Join(err, out.err); err != nil {
		return out.n, fmt.Errorf("copy %s: %w", s.path, boltfile.ClassifySpace(err))
	}
	return out.n, nil
}

// flushForCopy commits what is pending if that can be done.
func (s *Store) flushForCopy(ctx context.Context) error {
	if s.ReadOnly() || !s.hasPending() {
		return ctx.Err()
	}
	if err := s.Flush(ctx); err != nil && ctx.Err() == nil {
		s.logger().Info("What is pending could not be committed before a copy of the store; the copy is older by that", "why",
			err.Error())
	}
	return ctx.Err()
}

// copyWriter passes on what is written while ctx lasts, and keeps the error.
type copyWriter struct {
	ctx context.Context
	w   io.Writer
	n   int64
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

// CopyFile makes a copy of the file, as CopyTo does, for its owner only, and returns its name. Whoever called it
// removes it. It is not synced: it is to be read and removed, not to be kept.
//
// The copy is beside the store, in a directory that is trusted with the contents and in the same file system, and what
// a process that died has left is removed by the next open for writing, as all that is called <path>.new-* is. That
// needs room for the part of the file that has ever been in use (ErrNoSpace, and nothing is left). A directory for
// temporary files is not used by itself: it may be in memory.
func (s *Store) CopyFile(ctx context.Context) (name string, err error) {
	name = s.real + format.SuffixNew + rand.Text()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("copy %s: %w", s.path, boltfile.ClassifySpace(err))
	}
	_, err = s.CopyTo(ctx, f)
	if closed := f.Close(); err == nil && closed != nil {
		err = fmt.Errorf("copy %s: %w", s.path, boltfile.ClassifySpace(closed))
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(name))
	}
	return name, nil
}

// OpenCopy opens what CopyFile has made for reading, with the keys of the store.
func (s *Store) OpenCopy(ctx context.Context, name string) (*Store, error) {
	return OpenContext(ctx, name, Options{ReadOnly: true, Logger: s.o.Logger, Encryption: s.o.Encryption})
}
