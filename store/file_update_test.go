package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// fillFile writes until the file is full, and returns the number of keys in the store.
func fillFile(s *store.Store, from int) (int, error) {
	for n := from; ; n++ {
		if err := put(s, bytes.Repeat([]byte{1}, 30_000), fmt.Sprintf("key-%06d", n)); err != nil {
			return n, err
		}
	}
}

func wantFull(t *testing.T, s *store.Store, n int, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrOutcomeUnknown) ||
		!strings.Contains(err.Error(), s.Path()) {
		t.Fatalf("after %d keys: %v", n, err)
	}
	if s.Err() != nil {
		t.Errorf("no space is no failure, but Err is %v", s.Err())
	}
	all, err := readAll(s)
	if err != nil || len(all) != n {
		t.Errorf("%d keys of %d, %v", len(all), n, err)
	}
	wantPages(t, s)
}

// TestMaxSize checks that a full store can be read, and accepts all writes with a larger MaxSize.
func TestMaxSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.Options{MaxSize: 10 << 20})
	n, err := fillFile(s, 0)
	wantFull(t, s, n, err)
	for range 3 {
		_, err = fillFile(s, n)
		wantFull(t, s, n, err)
	}
	if err := put(s, []byte("small"), "key-000000"); err != nil {
		t.Errorf("a write that needs no room: %v", err)
	}
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{MaxSize: 20 << 20})
	more, err := fillFile(s, n)
	wantFull(t, s, more, err)
	if more <= n {
		t.Error("the store did not grow")
	}
}

// TestNoSpaceIsReported checks that a commit that fails for lack of space returns ErrNoSpace, even if bbolt's error has
// only the text of the errno. Any other failed commit must return ErrOutcomeUnknown.
func TestNoSpaceIsReported(t *testing.T) {
	commit := func(err error) error {
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
		failCommits(s, func() error { return err })
		return put(s, nil, "k")
	}
	for _, errno := range noSpaceErrors() {
		for _, err := range []error{errno, fmt.Errorf("write x: %w", errno),
			errors.New("file resize error: " + errno.Error())} {
			if got := commit(err); !errors.Is(got, store.ErrNoSpace) || errors.Is(got, store.ErrOutcomeUnknown) {
				t.Errorf("%q: %v", err, got)
			}
		}
	}
	for _, err := range []error{syscall.EIO, errors.New("file sync error: input/output error"), store.ErrOutcomeUnknown} {
		if got := commit(err); errors.Is(got, store.ErrNoSpace) || !errors.Is(got, store.ErrOutcomeUnknown) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// noSpaceErrors are the errors of a full disk, quota or limit on this system.
func noSpaceErrors() []syscall.Errno {
	if runtime.GOOS == "windows" {
		return []syscall.Errno{syscall.ENOSPC, 39, 112, 1295} // Windows error codes: handle or disk full, quota exceeded
	}
	return []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
}

// TestFailedSync checks that after a commit of unknown outcome the next write goes to a copy, and that reads go on.
func TestFailedSync(t *testing.T) {
	for what, test := range map[string]struct {
		before, after error
		stored        bool
		want          error
	}{
		"the first sync fails":                     {before: syscall.EIO, want: store.ErrOutcomeUnknown},
		"the sync of the meta page fails":          {after: syscall.EIO, stored: true, want: store.ErrOutcomeUnknown},
		"the sync of the meta page finds no space": {after: syscall.ENOSPC, stored: true, want: store.ErrOutcomeUnknown},
		"there was no space before":                {before: syscall.ENOSPC, want: store.ErrNoSpace},
	} {
		path := filepath.Join(t.TempDir(), "store")
		s := mustOpen(t, path, store.Options{})
		put := func(value string) error { return s.PutDocument(t.Context(), "k", []byte(value)) }
		if err := put("old"); err != nil {
			t.Fatal(err)
		}
		g := store.GateCommits(s)
		g.Fail(func() error { return test.before })
		g.After(func() error { return test.after })
		if err := put("new"); !errors.Is(err, test.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		g.Fail(nil)
		g.After(nil)
		want := "old"
		if test.stored {
			want = "new"
		}
		if got, err := s.Document(t.Context(), "k"); err != nil || string(got) != want {
			t.Errorf("%s: reads give %q, %v", what, got, err)
		}
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := put("again"); err != nil || s.Err() != nil {
			t.Errorf("%s: the next write: %v, Err: %v", what, err, s.Err())
		}
		after, err := os.Stat(path)
		if err != nil || os.SameFile(before, after) == errors.Is(test.want, store.ErrOutcomeUnknown) {
			t.Errorf("%s: the same file: %t, %v", what, os.SameFile(before, after), err)
		}
		if got, err := s.Document(t.Context(), "k"); err != nil || string(got) != "again" {
			t.Errorf("%s: then reads give %q, %v", what, got, err)
		}
		mustClose(t, s)
		if !closedCleanly(t, path) {
			t.Errorf("%s: not marked as closed cleanly", what)
		}
		s = mustOpen(t, path, store.Options{})
		if s.Quarantined() != "" {
			t.Errorf("%s: a good file was moved aside", what)
		}
		mustClose(t, s)
	}
}

func TestUpdateHonoursContext(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	inside, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- store.UpdateFile(context.Background(), s, func(*bolt.Tx) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	waiting := make(chan error, 1)
	go func() { waiting <- store.UpdateFile(ctx, s, func(*bolt.Tx) error { return nil }) }()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("a writer that waits for another: %v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := store.ViewFile(ctx, s, func(*bolt.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a read with a context that is over: %v", err)
	}
}

// TestFunctionFails checks that a write transaction returns its function's error unchanged, and stores nothing.
func TestFunctionFails(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
	mine := errors.New("mine")
	err := store.UpdateFile(context.Background(), s, func(tx *bolt.Tx) error {
		if _, err := tx.Bucket(disk.Root).CreateBucket([]byte("test")); err != nil {
			return err
		}
		return mine
	})
	if err != mine { //nolint:errorlint // it must be the same value
		t.Errorf("update: %v", err)
	}
	if all, err := readAll(s); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestWritten(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
	before := s.Written()
	value := bytes.Repeat([]byte{1}, 100_000)
	if err := put(s, value, "k"); err != nil {
		t.Fatal(err)
	}
	first := s.Written() - before
	if first < int64(len(value)) || first > 2*int64(len(value)) {
		t.Errorf("%d bytes written for a value of %d", first, len(value))
	}
	failCommits(s, func() error { return errors.New("from the test") })
	if err := put(s, value, "k"); err == nil {
		t.Fatal("no error")
	}
	if n := s.Written() - before; n != first {
		t.Errorf("%d bytes written, %d before a commit that failed", n, first)
	}
}
