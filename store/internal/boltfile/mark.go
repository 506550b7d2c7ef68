package boltfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/larder-dev/larder/store/internal/format"
)

// Mark is the file <path>.opening. It has two uses.
//
// It is a lock for opening: its holder may create the store, move it aside or replace it. A lock on the store itself
// cannot serve for that, because the lock disappears with the file.
//
// It also holds the number of processes that died while they opened the store. The count is raised before bbolt maps
// the file, and the mark is removed when the opening ends. A process that finds a count verifies the file before it
// maps it, so a file that crashes its reader does so only once. The earlier process may also have died for another
// reason, so the file is moved aside only if it is damaged. A process whose store fails also leaves a mark with a
// count.
type Mark struct {
	f    *os.File // the locked file; nil after Release, and if the disk was too full to make it
	path string
	// Crashes is the number of processes that died while they opened the store, as TakeMark read it.
	Crashes int
}

// TakeMark takes the Mark of a store, the lock for opening. It waits until the deadline or the end of ctx, and then
// fails with ErrLocked. If the disk is too full to make the mark, TakeMark returns one without a lock, whose Crashes is
// 1.
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
			m.Crashes = readCount(f)
			return m, nil
		}
		if !waitUntil(ctx, deadline) {
			return nil, gaveUp(ctx, store)
		}
	}
}

// crashesSaid returns the number of crashes that the mark of a store (<path>.opening) records, without taking the mark;
// 0 if the mark cannot be opened.
func crashesSaid(store string) int {
	f, err := os.OpenFile(store+format.SuffixOpening, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	return readCount(f)
}

// readCount returns the number of crashes that a mark (<path>.opening) records: 0 if the mark is empty, and 1 if it
// cannot be read or parsed, as after a torn write.
func readCount(f *os.File) int {
	data, err := io.ReadAll(io.LimitReader(f, 20))
	text := strings.TrimSpace(string(data))
	if err == nil && text == "" {
		return 0 // an empty mark: the process died before it opened the store
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n
	}
	return 1
}

// Count adds 1 to the number of crashes in the mark, before the store is opened; Release removes the mark when the open
// has ended. Count does not sync, because the number records crashes of the process, not of the machine.
func (m *Mark) Count() {
	if m.f == nil {
		return
	}
	if _, err := m.f.WriteAt([]byte(strconv.Itoa(m.Crashes+1)+"\n"), 0); err != nil {
		m.Crashes = max(m.Crashes, 1) // if the count cannot be written, this open verifies the file
	}
}

// leaveMark writes a mark, the file <path>.opening, that makes the next process that opens the store verify every page.
// Another process that holds the mark at this moment may remove it; then that verification is skipped.
func leaveMark(store string) error {
	f, err := os.OpenFile(store+format.SuffixOpening, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	if err == nil {
		_, err = f.WriteString("1\n")
		err = errors.Join(err, f.Close())
	}
	return err
}

// Release removes the mark, the file <path>.opening, whether the store was opened or not: this process has survived the
// attempt.
func (m *Mark) Release() error {
	if m.f == nil {
		return nil
	}
	f := m.f
	m.f = nil
	return unlockMark(f, m.path)
}
