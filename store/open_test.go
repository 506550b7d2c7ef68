package store_test

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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// quiet is a logger for tests that damage stores on purpose.
var quiet = logr.Discard()

func mustOpen(t *testing.T, path string, o store.Options) *store.Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = &quiet
	}
	if filePageSize != defaultPageSize {
		o = store.WithPageSize(o, filePageSize)
	}
	s, err := store.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustClose(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// put writes a value under each of the keys, in a bucket that only tests use.
func put(s *store.Store, value []byte, keys ...string) error {
	return store.UpdateFile(context.Background(), s, func(tx *bolt.Tx) error {
		b, err := tx.Bucket(disk.Root).CreateBucketIfNotExists([]byte("test"))
		if err != nil {
			return err
		}
		if b, err = b.CreateBucketIfNotExists(disk.Objects); err != nil {
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

// readAll returns the values that put has stored, by key.
func readAll(s *store.Store) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := store.ViewFile(context.Background(), s, func(tx *bolt.Tx) error {
		b := tx.Bucket(disk.Root).Bucket([]byte("test"))
		if b == nil {
			return nil
		}
		last := ""
		return b.Bucket(disk.Objects).ForEach(func(k, v []byte) error {
			if key := string(k); key <= last && last != "" {
				// Keys that do not ascend mean a cycle of pages, in which ForEach would not end.
				return fmt.Errorf("%q after %q: %w", key, last, entry.ErrDamaged)
			}
			last = string(k)
			all[last] = bytes.Clone(v)
			return nil
		})
	})
	return all, err
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := filesIn(t, dir); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the directory has %q, want %q", got, want)
	}
}

func TestOpenMakesAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "store")
	s := mustOpen(t, path, store.Options{})
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

	s = mustOpen(t, path, store.Options{})
	got, err := readAll(s)
	if err != nil || string(got["k"]) != "v" {
		t.Errorf("after reopening: %q, %v", got, err)
	}
	wantPages(t, s)
}

// TestOpenAfterCrashedCreation checks that temporary files and an empty file do not keep a store from being created.
func TestOpenAfterCrashedCreation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	for _, name := range []string{path, path + disk.SuffixNew + "ABC", path + disk.SuffixNew + "DEF"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, path, store.Options{})
	if err := put(s, []byte("v"), "k"); err != nil {
		t.Fatal(err)
	}
	wantNames(t, filepath.Dir(path), "store")
	if s.Quarantined() != "" {
		t.Errorf("an empty file was put aside as %s", s.Quarantined())
	}
}

// TestOpenAtOnce checks that exactly one of several concurrent opens of a new store succeeds.
func TestOpenAtOnce(t *testing.T) {
	for range 8 {
		path := filepath.Join(t.TempDir(), "store")
		var wg sync.WaitGroup
		stores, errs := make([]*store.Store, 6), make([]error, 6)
		for i := range stores {
			wg.Go(func() { stores[i], errs[i] = store.Open(path, store.Options{LockTimeout: 200_000_000, Logger: &quiet}) })
		}
		wg.Wait()
		opened := 0
		for i, s := range stores {
			if errs[i] != nil {
				if !errors.Is(errs[i], store.ErrLocked) {
					t.Errorf("opener %d: %v", i, errs[i])
				}
				continue
			}
			opened++
			if err := put(s, []byte("v"), "k"); err != nil {
				t.Error(err)
			}
			mustClose(t, s)
			s = mustOpen(t, path, store.Options{})
			if all, err := readAll(s); err != nil || string(all["k"]) != "v" {
				t.Errorf("opener %d has a file that is not at the path any more: %v", i, err)
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
	s := mustOpen(t, path, store.Options{})
	for _, readOnly := range []bool{false, true} {
		_, err := store.Open(path, store.Options{ReadOnly: readOnly, LockTimeout: -1})
		if !errors.Is(err, store.ErrLocked) || strings.Count(err.Error(), path) != 1 || !isHeldHere(err) ||
			strings.Contains(err.Error(), "%!") {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
	}
	if s.Quarantined() != "" {
		t.Error("quarantined")
	}
	wantNames(t, filepath.Dir(path), "store")

	done := make(chan error)
	go func() {
		other, err := store.Open(path, store.Options{LockTimeout: 60_000_000_000})
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

// TestOpenContext checks that the error of a canceled open names the process that holds the store.
func TestOpenContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.Options{})
	why := errors.New("SIGTERM")
	for _, readOnly := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			_, err := store.OpenContext(ctx, path, store.Options{ReadOnly: readOnly, LockTimeout: time.Hour})
			done <- err
		}()
		cancel(why)
		if err := <-done; !errors.Is(err, why) || !errors.Is(err, store.ErrLocked) || !isHeldHere(err) {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
	}
	mustClose(t, s)
	wantNames(t, filepath.Dir(path), "store")
	mustClose(t, mustOpen(t, path, store.Options{}))
}

// isHeldHere reports whether err names this process as the holder of the store; always true on non-Linux systems.
func isHeldHere(err error) bool {
	return runtime.GOOS != "linux" || strings.Contains(err.Error(),
		"this process has it open already: share the *Store, or close it")
}

func TestLockedByAnother(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // other systems do not tell which process has the lock
	}
	path := filepath.Join(t.TempDir(), "store")
	mustClose(t, mustOpen(t, path, store.Options{}))
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
	_, err = store.Open(path, store.Options{LockTimeout: -1})
	if want := fmt.Sprintf("process %d (store.test)", cmd.Process.Pid); !errors.Is(err, store.ErrLocked) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestOpenWithoutAPath(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		if _, err := store.Open("", store.Options{ReadOnly: readOnly}); err == nil ||
			!strings.Contains(err.Error(), "the path is empty") {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
	}
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	if _, err := store.Open(path, store.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "opening for reading makes none") {
		t.Errorf("a store that is not there: %v", err)
	}
	wantNames(t, dir)

	s := mustOpen(t, path, store.Options{})
	if err := put(s, []byte("v"), "k"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := mustOpen(t, path, store.Options{ReadOnly: true})
	b := mustOpen(t, path, store.Options{ReadOnly: true})
	wantNames(t, dir, "store")
	for _, s := range []*store.Store{a, b} {
		if got, err := readAll(s); err != nil || string(got["k"]) != "v" {
			t.Errorf("read-only: %q, %v", got, err)
		}
		if err := put(s, []byte("v"), "k"); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("a write to a read-only store: %v", err)
		}
	}
	if _, err := store.Open(path, store.Options{LockTimeout: -1}); !errors.Is(err, store.ErrLocked) {
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
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
	mustClose(t, s)
	mustClose(t, s)
	if err := put(s, nil, "k"); !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), s.Path()) {
		t.Errorf("write: %v", err)
	}
	if _, err := readAll(s); !errors.Is(err, store.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if _, _, err := s.Size(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("size: %v", err)
	}
}

// TestCloseWaits checks that Close cancels the build of an index and waits for the build to end.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
		c := mustCollection(t, s, pods())
		mustList(t, c, 8000)
		mustEnd(t, c)
		calls, leave, closed := atomic.Int32{}, make(chan struct{}), make(chan error, 1)
		slow := func(any) ([]string, error) {
			calls.Add(1)
			<-leave
			return nil, nil
		}
		c, err := s.Collection(t.Context(), pods(), store.CollectionOptions{
			Residency: store.None, Codec: mustCodec(t, &corev1.Pod{}), Indexers: cache.Indexers{"slow": slow},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.BuildIndexes()
		synctest.Wait()
		before := calls.Load()
		go func() { closed <- s.Close() }()
		synctest.Wait()
		if len(closed) > 0 || before == 0 {
			t.Errorf("Close returned amid the work; %d calls", before)
		}
		close(leave)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if n := calls.Load(); n >= 8000 {
			t.Errorf("the work was not called off: %d calls", n)
		}
	})
}

// TestCloseWaitsForTheVerification checks that the background verification reads no page after Close has returned.
func TestCloseWaitsForTheVerification(t *testing.T) {
	path, _ := populated(t, false)
	synctest.Test(t, func(t *testing.T) {
		leave, closed := make(chan struct{}), make(chan error, 1)
		var begun atomic.Bool
		logger := funcr.New(func(_, args string) {
			if strings.Contains(args, "Background work") && strings.Contains(args, "verify the file") {
				begun.Store(true)
				<-leave
			}
		}, funcr.Options{Verbosity: 4})
		s := mustOpen(t, path, store.Options{Logger: &logger})
		synctest.Wait()
		go func() { closed <- s.Close() }()
		synctest.Wait()
		if len(closed) > 0 || !begun.Load() {
			t.Errorf("Close returned amid the work; it had begun: %t", begun.Load())
		}
		close(leave)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
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
			if _, err := store.Open(path, store.Options{ReadOnly: readOnly}); !errors.Is(err, store.ErrForeign) &&
				!(path == dir && err != nil) {
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
		s := mustOpen(t, path, store.Options{})
		err := store.UpdateFile(context.Background(), s, func(tx *bolt.Tx) error { return disk.PutFormat(tx, format) })
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
	before := set(store.FormatVersion + 1)
	for _, readOnly := range []bool{false, true} {
		_, err := store.Open(path, store.Options{ReadOnly: readOnly})
		if !errors.Is(err, store.ErrNewerFormat) || !strings.Contains(err.Error(), "format 2") ||
			!strings.Contains(err.Error(), "up to 1") {
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
		if _, err := store.Open(path, store.Options{ReadOnly: readOnly}); err == nil ||
			!strings.Contains(err.Error(), "format 0") {
			t.Errorf("older, read-only %t: %v", readOnly, err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("an older file was changed (%v)", err)
	}
	wantNames(t, filepath.Dir(path), "store")
}
