package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// CopyTo writes a consistent copy of the file to w, and returns the number of bytes written. The copy can be opened as
// a store. Dirty changes are committed first; if that fails the copy lacks them.
//
// Readers and writers do not wait for CopyTo. But pages that become free meanwhile cannot be reused, so the file grows
// with each write: w should be fast, such as a file. w is called in a transaction, and must not use the store. CopyTo
// checks ctx before each write to w. If the file cannot be read, or is shorter than it should be, the error wraps
// ErrDamaged. If w fails, CopyTo returns the error of w, or ErrNoSpace.
func (s *Store) CopyTo(ctx context.Context, w io.Writer) (n int64, err error) {
	if err := s.flushForCopy(ctx); err != nil {
		return 0, fmt.Errorf("copy %s: %w", s.file.Path, err)
	}
	n, err = s.file.CopyTo(ctx, w)
	if err != nil {
		return n, fmt.Errorf("copy %s: %w", s.file.Path, err)
	}
	return n, nil
}

// flushForCopy commits the dirty changes. It logs a failure, and returns an error only if ctx has ended.
func (s *Store) flushForCopy(ctx context.Context) error {
	if s.ReadOnly() || !s.commits.Dirty() {
		return ctx.Err()
	}
	if err := s.Flush(ctx); err != nil && ctx.Err() == nil {
		s.logger().Info("A copy of the store lacks the latest changes, because they could not be committed before it", "why",
			err.Error())
	}
	return ctx.Err()
}

// CopyFile makes a temporary copy of the file, as CopyTo does, with mode 0600, and returns its name. The copy is not
// synced. The caller removes it.
//
// The copy is in the store's directory, which is trusted with the contents. The system's temporary directory may be in
// memory. The name of the copy is <path>.new-*: if the process dies, the next open for writing removes it. The copy
// needs disk space for the part of the file that has ever been in use; without it CopyFile fails with ErrNoSpace.
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
