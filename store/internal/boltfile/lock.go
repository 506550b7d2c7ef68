package boltfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/format"
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

// Mark is the file <path>.opening. It has two uses.
//
// The Mark is a lock for opening: its holder may create the store, move it aside or replace it. A lock on the store
// itself cannot serve for that, because the lock disappears with the file.
//
// The Mark also holds the number of processes that died while they opened the store. The count is raised before bbolt
// maps the file, and the Mark is removed at the end of the opening. A process that finds a count verifies the file
// before it maps it, so a file that crashes its reader does so only once. The earlier process may also have died for
// another reason, so the file is moved aside only if it is damaged. A process whose store fails also leaves a Mark with
// a count.
type Mark struct {
	f    *os.File // f is the locked file; nil after Release, and on a full disk.
	path string
	// Crashes is the number of processes that died while they opened the store, as TakeMark read it.
	Crashes int
	// Copies is true if a process has found the store damaged: its readable part must be copied before it is used.
	Copies bool
}

// TakeMark takes the Mark of a store. It waits until the deadline or the end of ctx, and then fails with ErrLocked. On
// a full disk, it returns a Mark without a lock, whose Crashes is 1.
func TakeMark(ctx context.Context, store string, deadline time.Time) (*Mark, error) {
	m := &Mark{path: store + format.SuffixOpening}
	for {
		f, err := lockMark(m.path)
		if isNoSpace(err) {
			m.Crashes = 1
			return m, nil
		}
		if err != nil {
			return nil, fmt.Errorf("leave a mark beside the store: %w", err)
		}
		if f != nil {
			m.f = f
			m.Crashes, m.Copies = readCount(f)
			return m, nil
		}
		if !waitUntil(ctx, deadline) {
			return nil, gaveUp(ctx, store)
		}
	}
}

// crashesSaid returns the number of crashes in the Mark of a store, without taking the Mark; 0 for an unreadable Mark.
func crashesSaid(store string) int {
	f, err := os.OpenFile(store+format.SuffixOpening, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	crashes, _ := readCount(f)
	return crashes
}

// markCopies follows the number of crashes in a Mark with Copies.
const markCopies = " copy"

// readCount returns the number of crashes in a Mark, and Mark.Copies. The number is 0 for an empty Mark, and 1 for
// unreadable content.
func readCount(f *os.File) (crashes int, copies bool) {
	data, err := io.ReadAll(io.LimitReader(f, 20))
	text, copies := strings.CutSuffix(strings.TrimSpace(string(data)), markCopies)
	if err == nil && text == "" {
		return 0, copies // An empty mark: the process died before it opened the store.
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n, copies
	}
	return 1, copies
}

func markText(crashes int, copies bool) string {
	text := strconv.Itoa(crashes)
	if copies {
		text += markCopies
	}
	return text + "\n"
}

// Count adds 1 to the number of crashes in the Mark before the store is opened. Count does not sync, because the number
// counts crashes of the process, not of the machine.
func (m *Mark) Count() {
	if m.f == nil {
		return
	}
	if _, err := m.f.WriteAt([]byte(markText(m.Crashes+1, m.Copies)), 0); err != nil {
		m.Crashes = max(m.Crashes, 1) // Without a count, this process must verify the file.
	}
}

// leaveMark writes a Mark that makes the next process that opens the store verify every page, or, if copies is true,
// copy the readable part. Another process that holds the Mark at this moment may remove it, which skips that.
func leaveMark(store string, copies bool) error {
	f, err := os.OpenFile(store+format.SuffixOpening, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	if err == nil {
		_, err = f.WriteString(markText(1, copies))
		err = errors.Join(err, f.Close())
	}
	return err
}

// Release removes the Mark, even if the store was not opened: this process has survived the attempt.
func (m *Mark) Release() error {
	if m.f == nil {
		return nil
	}
	f := m.f
	m.f = nil
	return unlockMark(f, m.path)
}
