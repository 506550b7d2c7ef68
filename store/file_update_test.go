package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// fill writes until there is no room, and returns how many keys are in the store.
func fill(s *Store, from int) (int, error) {
	for n := from; ; n++ {
		if err := put(s, bytes.Repeat([]byte{1}, 30_000), fmt.Sprintf("key-%06d", n)); err != nil {
			return n, err
		}
	}
}

// wantFull verifies that a store that is full lost nothing, and goes on reading.
func wantFull(t *testing.T, s *Store, n int, err error) {
	t.Helper()
	if !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrOutcomeUnknown) || !strings.Contains(err.Error(), s.Path()) {
		t.Fatalf("after %d keys: %v", n, err)
	}
	if s.Err() != nil {
		t.Errorf("no space is no failure, but Err is %v", s.Err())
	}
	all, err := readAll(s)
	if err != nil || len(all) != n {
		t.Errorf("%d keys of %d, %v", len(all), n, err)
	}
	if pages, err := s.checkPages(context.Background()); err != nil || len(pages) > 0 {
		t.Errorf("pages: %q, %v", pages, err)
	}
}

// TestMaxSize: a full store can be read, written where that needs no room, and
// goes on when it is given more.
func TestMaxSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, Options{MaxSize: 10 << 20})
	n, err := fill(s, 0)
	wantFull(t, s, n, err)
	for range 3 {
		_, err = fill(s, n)
		wantFull(t, s, n, err)
	}
	if err := put(s, []byte("small"), "key-000000"); err != nil {
		t.Errorf("a write that needs no room: %v", err)
	}
	mustClose(t, s)
	s = mustOpen(t, path, Options{MaxSize: 20 << 20})
	more, err := fill(s, n)
	wantFull(t, s, more, err)
	if more <= n {
		t.Error("the store did not grow")
	}
}

// TestNoSpaceIsTold covers the errors that can not be caused here, and bbolt's
// that have lost theirs.
func TestNoSpaceIsTold(t *testing.T) {
	for _, errno := range noSpaceErrors() {
		for _, err := range []error{errno, fmt.Errorf("write x: %w", errno), errors.New("file resize error: " + errno.Error())} {
			if !isNoSpace(err) {
				t.Errorf("%q", err)
			}
		}
	}
	for _, err := range []error{nil, syscall.EIO, errors.New("file sync error: input/output error"), ErrOutcomeUnknown} {
		if isNoSpace(err) {
			t.Errorf("%v", err)
		}
	}
}

// TestFailedSync: a commit whose outcome is not known stops the writing. Reads
// are served, from whatever bbolt's readers see.
func TestFailedSync(t *testing.T) {
	for what, test := range map[string]struct {
		commit func(tx *bolt.Tx) error
		stored bool
		want   error
	}{
		"the first sync fails": {commit: func(tx *bolt.Tx) error {
			return errors.Join(tx.Rollback(), syscall.EIO)
		}, want: ErrOutcomeUnknown},
		"the sync of the meta page fails": {commit: func(tx *bolt.Tx) error {
			return errors.Join(tx.Commit(), syscall.EIO)
		}, stored: true, want: ErrOutcomeUnknown},
		"the sync of the meta page finds no space": {commit: func(tx *bolt.Tx) error {
			return errors.Join(tx.Commit(), syscall.ENOSPC)
		}, stored: true, want: ErrOutcomeUnknown},
		"there was no space before": {commit: func(tx *bolt.Tx) error {
			return errors.Join(tx.Rollback(), syscall.ENOSPC)
		}, want: ErrNoSpace},
	} {
		path := filepath.Join(t.TempDir(), "store")
		s := mustOpen(t, path, Options{})
		if err := put(s, []byte("old"), "k"); err != nil {
			t.Fatal(err)
		}
		s.hooks.commit = test.commit
		if err := put(s, []byte("new"), "k"); !errors.Is(err, test.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		s.hooks.commit = nil
		want := "old"
		if test.stored {
			want = "new"
		}
		if got, err := readAll(s); err != nil || string(got["k"]) != want {
			t.Errorf("%s: reads give %q, %v", what, got, err)
		}
		err := put(s, []byte("again"), "k")
		if sticky := errors.Is(test.want, ErrOutcomeUnknown); sticky != errors.Is(err, ErrOutcomeUnknown) || sticky != errors.Is(s.Err(), ErrOutcomeUnknown) {
			t.Errorf("%s: the next write: %v, Err: %v", what, err, s.Err())
		}
		mustClose(t, s)
		s = mustOpen(t, path, Options{ReadOnly: true})
		err = s.view(t.Context(), func(tx *bolt.Tx) error {
			rt, err := readRoot(tx)
			if rt.clean != errors.Is(test.want, ErrNoSpace) {
				t.Errorf("%s: marked as closed cleanly: %t", what, rt.clean)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		mustClose(t, s)
		s = mustOpen(t, path, Options{})
		if s.Quarantined() != "" {
			t.Errorf("%s: a good file was moved aside", what)
		}
		mustClose(t, s)
	}
}

func TestUpdateHonoursContext(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{})
	ctx, cancel := context.WithCancel(context.Background())
	inside, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.update(context.Background(), func(*bolt.Tx) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	waiting := make(chan error, 1)
	go func() { waiting <- s.update(ctx, func(*bolt.Tx) error { return nil }) }()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("a writer that waits for another: %v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.view(ctx, func(*bolt.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a read with a context that is over: %v", err)
	}
}

// TestFunctionFails: the error comes back as it is, and nothing is stored.
func TestFunctionFails(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{})
	mine := errors.New("mine")
	err := s.update(context.Background(), func(tx *bolt.Tx) error {
		if _, err := tx.Bucket(bucketLarder).CreateBucket([]byte("test")); err != nil {
			return err
		}
		return mine
	})
	if err != mine { //nolint:errorlint // it must be the very one
		t.Errorf("update: %v", err)
	}
	if all, err := readAll(s); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestWritten counts pages that were committed.
func TestWritten(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{})
	before := s.Written()
	value := bytes.Repeat([]byte{1}, 100_000)
	if err := put(s, value, "k"); err != nil {
		t.Fatal(err)
	}
	first := s.Written() - before
	if first < int64(len(value)) || first > 2*int64(len(value)) {
		t.Errorf("%d bytes written for a value of %d", first, len(value))
	}
	s.hooks.commit = func(*bolt.Tx) error { return errors.New("from the test") }
	if err := put(s, value, "k"); err == nil {
		t.Fatal("no error")
	}
	if n := s.Written() - before; n != first {
		t.Errorf("%d bytes written, %d before a commit that failed", n, first)
	}
}
