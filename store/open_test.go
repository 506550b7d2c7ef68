package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"
)

// quiet is a logger for tests that damage stores on purpose.
var quiet = logr.Discard()

func mustOpen(t *testing.T, path string, o Options) *Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = &quiet
	}
	if o.pageSize == 0 {
		o.pageSize = filePageSize
	}
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // does nothing where the test has closed it
	return s
}

func mustClose(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// put writes values under the given keys of a bucket of the tests' own.
func put(s *Store, value []byte, keys ...string) error {
	return s.update(context.Background(), func(tx *bolt.Tx) error {
		b, err := tx.Bucket(bucketLarder).CreateBucketIfNotExists([]byte("test"))
		if err != nil {
			return err
		}
		if b, err = b.CreateBucketIfNotExists(bucketObjects); err != nil {
			return err
		}
		for _, key := range keys {
			if err := b.Put([]byte(key), value); err != nil {
				return err
			}
		}
		return nil
	})
}

// readAll returns what put has written.
func readAll(s *Store) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := s.view(context.Background(), func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketLarder).Bucket([]byte("test"))
		if b == nil {
			return nil
		}
		keys := scanAfter(b.Bucket(bucketObjects), "")
		for k, v := keys.next(); k != nil; k, v = keys.next() {
			all[string(k)] = bytes.Clone(v)
		}
		return keys.err
	})
	return all, err
}

// names lists a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := names(t, dir); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the directory has %q, want %q", got, want)
	}
}

func TestOpenMakesAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "store")
	s := mustOpen(t, path, Options{})
	if s.Path() != path || s.Quarantined() != "" || s.Err() != nil {
		t.Errorf("a new store: path %q, quarantined %q, error %v", s.Path(), s.Quarantined(), s.Err())
	}
	if err := put(s, []byte("v"), "k"); err != nil {
		t.Fatal(err)
	}
	total, free, err := s.Size()
	if err != nil || total <= 0 || free <= 0 || free >= total {
		t.Errorf("size %d, free %d, %v", total, free, err)
	}
	mustClose(t, s)
	wantNames(t, dir, "store")
	for name, want := range map[string]fs.FileMode{path: 0o600, dir: 0o700} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, want %v (%v)", name, info.Mode(), want, err)
		}
	}

	s = mustOpen(t, path, Options{})
	got, err := readAll(s)
	if err != nil || string(got["k"]) != "v" {
		t.Errorf("after reopening: %q, %v", got, err)
	}
	if pages, err := s.checkPages(context.Background()); err != nil || len(pages) > 0 {
		t.Errorf("pages: %q, %v", pages, err)
	}
}

// TestOpenAfterCrashedCreation: neither the debris of a creation nor an empty file is in the way.
func TestOpenAfterCrashedCreation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	for _, name := range []string{path, path + suffixNew + "ABC", path + suffixNew + "DEF"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, path, Options{})
	if err := put(s, []byte("v"), "k"); err != nil {
		t.Fatal(err)
	}
	wantNames(t, filepath.Dir(path), "store")
	if s.Quarantined() != "" {
		t.Errorf("an empty file was put aside as %s", s.Quarantined())
	}
}

// TestOpenAtOnce: of many who open a store that is not there yet one gets it,
// and the others are told that it is locked.
func TestOpenAtOnce(t *testing.T) {
	for range 8 {
		path := filepath.Join(t.TempDir(), "store")
		var wg sync.WaitGroup
		stores, errs := make([]*Store, 6), make([]error, 6)
		for i := range stores {
			wg.Go(func() { stores[i], errs[i] = Open(path, Options{LockTimeout: 200_000_000, Logger: &quiet}) })
		}
		wg.Wait()
		opened := 0
		for i, s := range stores {
			if errs[i] != nil {
				if !errors.Is(errs[i], ErrLocked) {
					t.Errorf("opener %d: %v", i, errs[i])
				}
				continue
			}
			opened++
			if !hasName(s.handle.file, path) {
				t.Errorf("opener %d has a file that is not at the path any more", i)
			}
			mustClose(t, s)
		}
		if opened != 1 {
			t.Errorf("%d openers have the store", opened)
		}
		wantNames(t, filepath.Dir(path), "store")
	}
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, Options{})
	for _, readOnly := range []bool{false, true} {
		_, err := Open(path, Options{ReadOnly: readOnly, LockTimeout: -1})
		if !errors.Is(err, ErrLocked) || strings.Count(err.Error(), path) != 1 || !isHeldHere(err) {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
	}
	if s.Quarantined() != "" {
		t.Error("quarantined")
	}
	wantNames(t, filepath.Dir(path), "store")

	// Who waits gets it.
	done := make(chan error)
	go func() {
		other, err := Open(path, Options{LockTimeout: 60_000_000_000})
		if err == nil {
			err = other.Close()
		}
		done <- err
	}()
	mustClose(t, s)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOpenContext: who waits for long can be told to stop, and is told who has the store.
func TestOpenContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, Options{})
	why := errors.New("SIGTERM")
	for _, readOnly := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			_, err := OpenContext(ctx, path, Options{ReadOnly: readOnly, LockTimeout: time.Hour})
			done <- err
		}()
		cancel(why)
		if err := <-done; !errors.Is(err, why) || !errors.Is(err, ErrLocked) || !isHeldHere(err) {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
	}
	mustClose(t, s)
	wantNames(t, filepath.Dir(path), "store")
	mustClose(t, mustOpen(t, path, Options{}))
}

// isHeldHere reports whether err says that this very process holds the store, which is known on Linux.
func isHeldHere(err error) bool {
	return runtime.GOOS != "linux" || strings.Contains(err.Error(), "this process has it open already: share the *Store, or close it")
}

// TestLockedByAnother: the error names the process that holds the store.
func TestLockedByAnother(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // elsewhere it is not known
	}
	path := filepath.Join(t.TempDir(), "store")
	mustClose(t, mustOpen(t, path, Options{}))
	cmd := childCommand("hold", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Error(err)
	}
	_, err = Open(path, Options{LockTimeout: -1})
	if want := fmt.Sprintf("process %d (store.test)", cmd.Process.Pid); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestOpenWithoutAPath(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		if _, err := Open("", Options{ReadOnly: readOnly}); err == nil || !strings.Contains(err.Error(), "the path is empty") {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
	}
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	if _, err := Open(path, Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("a store that is not there: %v", err)
	}
	wantNames(t, dir)

	s := mustOpen(t, path, Options{})
	if err := put(s, []byte("v"), "k"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := mustOpen(t, path, Options{ReadOnly: true})
	b := mustOpen(t, path, Options{ReadOnly: true})
	wantNames(t, dir, "store")
	for _, s := range []*Store{a, b} {
		if got, err := readAll(s); err != nil || string(got["k"]) != "v" {
			t.Errorf("read-only: %q, %v", got, err)
		}
		if err := put(s, []byte("v"), "k"); !errors.Is(err, ErrReadOnly) {
			t.Errorf("a write to a read-only store: %v", err)
		}
	}
	if _, err := Open(path, Options{LockTimeout: -1}); !errors.Is(err, ErrLocked) {
		t.Errorf("open for writing beside readers: %v", err)
	}
	mustClose(t, a)
	mustClose(t, b)
	wantNames(t, dir, "store")
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed (%v)", err)
	}
}

func TestClosed(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{})
	mustClose(t, s)
	mustClose(t, s)
	if err := put(s, nil, "k"); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), s.Path()) {
		t.Errorf("write: %v", err)
	}
	if _, err := readAll(s); !errors.Is(err, ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, _, err := s.Size(); !errors.Is(err, ErrClosed) {
		t.Errorf("size: %v", err)
	}
	ran := make(chan error, 1)
	s.goBackground("test", func(ctx context.Context) { ran <- ctx.Err() })
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Errorf("background work after Close has a context with %v", err)
	}
}

// TestCloseWaits: Close cancels the background work and waits until it has ended.
func TestCloseWaits(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{})
	ended := false
	s.goBackground("test", func(ctx context.Context) {
		<-ctx.Done()
		ended = put(s, []byte("late"), "k") == nil
	})
	mustClose(t, s)
	if !ended {
		t.Error("the work did not end, with a last write, before the store was closed")
	}
}

func TestForeign(t *testing.T) {
	dir := t.TempDir()
	text, other := filepath.Join(dir, "text"), filepath.Join(dir, "other")
	if err := os.WriteFile(text, []byte("apiVersion: v1\nkind: Config\n"+strings.Repeat("#", 20000)), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("meta"))
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	etcd := filepath.Join(dir, "etcd")
	if db, err = bolt.Open(etcd, 0o600, &bolt.Options{NoFreelistSync: true}); err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("key"))
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, other, etcd, dir} {
		before, _ := os.ReadFile(path)
		for _, readOnly := range []bool{false, true} {
			if _, err := Open(path, Options{ReadOnly: readOnly}); !errors.Is(err, ErrForeign) && !(path == dir && err != nil) {
				t.Errorf("%s, read-only %t: %v", filepath.Base(path), readOnly, err)
			}
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%s has been changed", path)
		}
	}
	wantNames(t, dir, "etcd", "other", "text")
}

func TestFormats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	set := func(format uint64) []byte {
		t.Helper()
		s := mustOpen(t, path, Options{})
		err := s.update(context.Background(), func(tx *bolt.Tx) error { return putFormat(tx, format) })
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	before := set(formatVersion + 1)
	for _, readOnly := range []bool{false, true} {
		_, err := Open(path, Options{ReadOnly: readOnly})
		if !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), "format 2") || !strings.Contains(err.Error(), "up to 1") {
			t.Errorf("newer, read-only %t: %v", readOnly, err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a newer file was changed (%v)", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	before = set(0)
	for _, readOnly := range []bool{false, true} {
		if _, err := Open(path, Options{ReadOnly: readOnly}); err == nil || !strings.Contains(err.Error(), "format 0") {
			t.Errorf("older, read-only %t: %v", readOnly, err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("an older file was changed (%v)", err)
	}
	wantNames(t, filepath.Dir(path), "store")
}

// TestUpgrade runs a step that does not exist yet.
func TestUpgrade(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{})
	steps := map[uint64]func(*bolt.Tx) error{0: func(tx *bolt.Tx) error {
		return tx.Bucket(bucketLarder).Put([]byte("step"), []byte("done"))
	}}
	if err := checkFormat(0, false, steps); err != nil {
		t.Error(err)
	}
	if err := checkFormat(0, true, steps); err == nil {
		t.Error("a file that is read only can not be upgraded")
	}
	err := s.update(context.Background(), func(tx *bolt.Tx) error { return upgrade(tx, 0, steps) })
	if err != nil {
		t.Fatal(err)
	}
	err = s.view(context.Background(), func(tx *bolt.Tx) error {
		rt, err := readRoot(tx)
		if err != nil || rt.format != formatVersion || tx.Bucket(bucketLarder).Get([]byte("step")) == nil {
			return fmt.Errorf("root %+v, %w", rt, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
