package boltfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/holder"
)

// lockPoll is how often a lock that another process holds is tried again.
const lockPoll = 20 * time.Millisecond

// locked is the error of a store that cannot be locked. It names who holds it, as far as that is known.
func locked(path string) error {
	switch holders := holder.Of(path); {
	case len(holders) > 0:
		names := make([]string, 0, len(holders))
		for _, h := range holders {
			names = append(names, h.String())
		}
		return fmt.Errorf("%w by %s; stop that process, or use another file", ErrLocked, strings.Join(names, " and "))
	case holder.This(path):
		return fmt.Errorf("%w: this process has it open already: share the *Store, or close it", ErrLocked)
	}
	return fmt.Errorf("%w, by another process or by another Store of this one; stop that process, or use another file",
		ErrLocked)
}

// OpenLocked opens the file and locks it, waiting until the deadline or the end of ctx. The file
// it returns is the one that has this name: a lock on a file that was moved
// aside meanwhile protects nothing.
func OpenLocked(ctx context.Context, path string, flag int, exclusive bool, deadline time.Time) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, flag|noFollow, 0)
		if err != nil {
			return nil, err
		}
		ok, err := tryLock(f, exclusive)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		if ok && HasName(f, path) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if !waitUntil(ctx, deadline) {
			return nil, gaveUp(ctx, path)
		}
	}
}

// closeMapped closes a file of which a mapping may be left. That would keep
// the lock if it were not given up first.
func closeMapped(f *os.File) error {
	return errors.Join(unlock(f), f.Close())
}

// HasName reports whether the open file is the one at path, which is resolved: a symbolic link that has come there
// since leads to the file, and is not it.
func HasName(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}

// waitUntil waits for the next try. It is false once the deadline has passed, or ctx has ended.
func waitUntil(ctx context.Context, deadline time.Time) bool {
	left := time.Until(deadline)
	if left <= 0 {
		return false
	}
	timer := time.NewTimer(min(left, lockPoll))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// gaveUp is locked, with the reason if it was ctx that ended the wait.
func gaveUp(ctx context.Context, path string) error {
	if ctx.Err() == nil {
		return locked(path)
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), locked(path))
}

// IsMissing reports whether err says that there is no such file.
func IsMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
