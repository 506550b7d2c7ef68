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
// It is the lock of those who open: whoever holds it may create the store,
// move it aside or put another in its place. (The lock on the store itself
// cannot serve for that: it goes away with the file.)
//
// It holds the number of processes that died while they opened the store: the
// count goes up before bbolt maps the file, and the mark goes away when that
// has ended well. A process that finds a count verifies the file without mapping it
// first, so that a file that kills its reader does so once. The process may
// just as well have been killed: the file is moved aside only if it is damaged.
// A process that finds the store failing leaves a count too.
type Mark struct {
	f    *os.File
	path string
	// crashes is the count that was found.
	Crashes int
}

// TakeMark waits until the deadline, or the end of ctx, for the mark. It is an empty mark, and
// crashes is 1, if the disk is too full to leave one.
func TakeMark(ctx context.Context, store string, deadline time.Time) (*Mark, error) {
	m := &Mark{path: store + format.SuffixOpening}
	for {
		f, err := lockMark(m.path)
		if IsNoSpace(err) {
			m.Crashes = 1
			return m, nil
		}
		if err != nil {
			return nil, fmt.Errorf("leave a mark beside the store: %w", err)
		}
		if f != nil {
			m.f = f
			m.Crashes, err = readCount(f)
			return m, err
		}
		if !waitUntil(ctx, deadline) {
			return nil, gaveUp(ctx, store)
		}
	}
}

// CrashesSaid returns the count in the mark of a store, for those who do not take it.
func CrashesSaid(store string) int {
	f, err := os.OpenFile(store+format.SuffixOpening, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	n, _ := readCount(f)
	return n
}

func readCount(f *os.File) (int, error) {
	data, err := io.ReadAll(io.LimitReader(f, 20))
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return 0, nil // its process died before it touched the store
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n, nil
	}
	return 1, nil // torn
}

// Count leaves word that the store is about to be opened. It is not synced:
// what it is for is a crash of the process, not of the machine.
func (m *Mark) Count() {
	if m.f == nil {
		return
	}
	if _, err := m.f.WriteAt([]byte(strconv.Itoa(m.Crashes+1)+"\n"), 0); err != nil {
		m.Crashes = max(m.Crashes, 1) // no mark can be left: verify instead
	}
}

// LeaveMark makes the next process that opens the store verify it. Somebody who holds the mark just now may remove it:
// then a verification is missed, no more.
func LeaveMark(store string) error {
	f, err := os.OpenFile(store+format.SuffixOpening, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	if err == nil {
		_, err = f.WriteString("1\n")
		err = errors.Join(err, f.Close())
	}
	return err
}

// Release ends the opening, well or not: this process has survived it.
func (m *Mark) Release() error {
	if m.f == nil {
		return nil
	}
	f := m.f
	m.f = nil
	return unlockMark(f, m.path)
}
