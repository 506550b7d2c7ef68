package boltfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/base"
)

// lockPoll is the interval between attempts to get a lock that another process holds.
const lockPoll = 20 * time.Millisecond

// locked returns an error that wraps ErrLocked. The error names the processes that lock the file, if they are known.
func locked(path string) error {
	switch holders := base.HoldersOf(path); {
	case len(holders) > 0:
		names := make([]string, 0, len(holders))
		for _, h := range holders {
			names = append(names, h.String())
		}
		return fmt.Errorf("%w by %s; stop that process, or use another file", ErrLocked, strings.Join(names, " and "))
	case base.OpenHere(path):
		return fmt.Errorf("%w: this process has it open already: share the *Store, or close it", ErrLocked)
	}
	return fmt.Errorf("%w, by another process or by another Store of this one; stop that process, or use another file",
		ErrLocked)
}

// openLocked opens the file and locks it. It waits for the lock until the deadline or the end of ctx, and then fails
// with ErrLocked. Once it has the lock, it verifies that the file still has the name: a lock on a file that was moved
// aside meanwhile would protect nothing.
func openLocked(ctx context.Context, path string, flag int, exclusive bool, deadline time.Time) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, flag|noFollow, 0)
		if err != nil {
			return nil, err
		}
		ok, err := tryLock(f, exclusive)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		if ok && hasName(f, path) {
			return f, nil
		}
		_ = f.Close()
		if !waitUntil(ctx, deadline) {
			return nil, gaveUp(ctx, path)
		}
	}
}

// closeMapped unlocks the file before it closes it, because a mapping of the file would keep the lock.
func closeMapped(f *os.File) error {
	return errors.Join(unlock(f), f.Close())
}

// hasName reports whether the open file is the file at path. path must have no symbolic links, and a link at path
// itself does not count.
func hasName(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}

// waitUntil waits for the next attempt to get a lock. It returns false after the deadline or the end of ctx.
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

func gaveUp(ctx context.Context, path string) error {
	if ctx.Err() == nil {
		return locked(path)
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), locked(path))
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
