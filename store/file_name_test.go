//go:build unix

package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// stored opens the store at path as the next process would, and returns its objects and resourceVersion.
func stored(t *testing.T, path string) []string {
	t.Helper()
	s := openAt(t, path, store.Options{})
	defer s.Close()
	storetest.Check(t, s)
	c := openPods(t, s, byNamespaceAndColor)
	defer c.Close()
	return append(list(t, c), infoOf(t, c).ResourceVersion)
}

func TestRemovedFile(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"removed":               os.Remove,
		"moved away":            func(path string) error { return os.Rename(path, path+"-away") },
		"directory removed":     func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"moved to another name": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+"-old") },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d", "s.db")
			s := openAt(t, path, byHand())
			c := openPods(t, s, byNamespaceAndColor)
			relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1", storetest.ColorLabel, "red"), upsert("a/y", "2"))
			flush(t, s)
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			apply(t, c, "6", upsert("a/z", "6", storetest.ColorLabel, "blue"))
			flush(t, s)
			apply(t, c, "7", remove("a/y", "7"))
			wantObjects(t, c, "7", "a/x uid=uid-a/x rv=1 color=red", "a/z uid=uid-a/z rv=6 color=blue")
			if _, err := s.Compact(t.Context()); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			wantStrings(t, "the next process finds", stored(t, path), "a/x uid=uid-a/x rv=1 color=red",
				"a/z uid=uid-a/z rv=6 color=blue", "7")
		})
	}
}

// unwrapping is a KeyProvider that calls the function first before each Unwrap.
type unwrapping struct {
	seal.KeyProvider
	first func()
}

func (u unwrapping) Unwrap(ctx context.Context, id string, wrapped []byte) ([]byte, error) {
	u.first()
	return u.KeyProvider.Unwrap(ctx, id, wrapped)
}

// TestRemovedWhileOpened checks that the first write creates the file again if the file was removed during Open.
func TestRemovedWhileOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	e := podKeys(t)
	open := func() (*store.Store, *store.Collection) {
		s := openAt(t, path, store.Options{Encryption: e, CommitInterval: time.Hour})
		return s, openPods(t, s, byNamespaceAndColor)
	}
	s, c := open()
	relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	removed := false
	e.Keys = unwrapping{KeyProvider: e.Keys, first: func() {
		if !removed {
			removed = os.Remove(path) == nil
		}
	}}
	s, c = open()
	apply(t, c, "6", upsert("a/y", "6"))
	if err := s.Close(); err != nil || !removed {
		t.Fatalf("removed: %v; %v", removed, err)
	}
	_, c = open()
	wantStrings(t, "the next process finds", append(list(t, c), infoOf(t, c).ResourceVersion), "a/x uid=uid-a/x rv=1",
		"a/y uid=uid-a/y rv=6", "6")
}

// TestRemovedBeforeClose checks that Close creates a removed file again even without changes.
func TestRemovedBeforeClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := openAt(t, path, byHand())
	relist(t, openPods(t, s, nil), store.ReplaceOptions{}, "5", upsert("a/x", "1"))
	flush(t, s)
	if err := errors.Join(os.Remove(path), s.Close()); err != nil {
		t.Fatal(err)
	}
	wantStrings(t, "the next process finds", stored(t, path), "a/x uid=uid-a/x rv=1", "5")
}

// replaced returns a store whose file was replaced by an older backup.
func replaced(t *testing.T) (s *store.Store, c *store.Collection, path string, backup []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s.db")
	s = openAt(t, path, byHand())
	c = openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
	flush(t, s)
	other, err := os.Create(path + "-backup")
	if err == nil {
		_, err = s.CopyTo(t.Context(), io.Writer(other))
		err = errors.Join(err, other.Close())
	}
	apply(t, c, "6", upsert("a/y", "6"))
	flush(t, s)
	if err := errors.Join(err, os.Rename(path, path+"-away"), os.Rename(path+"-backup", path)); err != nil {
		t.Fatal(err)
	}
	return s, c, path, readFile(t, path)
}

// TestReplacedFile checks that a store serves its own contents and never writes to the file that replaced its own.
func TestReplacedFile(t *testing.T) {
	s, c, path, backup := replaced(t)
	apply(t, c, "7", upsert("a/z", "7"))
	for range 2 {
		if err := s.Flush(t.Context()); !errors.Is(err, store.ErrReplaced) || !namesBoth(err, path, len(backup)) {
			t.Fatalf("a commit: %v", err)
		}
		if err := s.CommitErr(); !errors.Is(err, store.ErrReplaced) {
			t.Errorf("CommitErr: %v", err)
		}
	}
	if err := c.SetMustRelist(t.Context(), "why"); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("another write: %v", err)
	}
	wantObjects(t, c, "7", "a/x uid=uid-a/x rv=1", "a/y uid=uid-a/y rv=6", "a/z uid=uid-a/z rv=7")
	if err := s.Close(); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("close: %v", err)
	}
	if !bytes.Equal(readFile(t, path), backup) {
		t.Error("the other file was written")
	}
	wantStrings(t, "the next process finds", stored(t, path), "a/x uid=uid-a/x rv=1", "5")
	wantStrings(t, "the file that was there has", stored(t, path+"-away"), "a/x uid=uid-a/x rv=1", "a/y uid=uid-a/y rv=6",
		"6")
}

// namesBoth reports whether an error names the file at path with its size, and, where the operating system knows it,
// the path to which the store's own file was moved.
func namesBoth(err error, path string, size int) bool {
	own := path + "-away"
	if runtime.GOOS != "linux" {
		own = "the file that is open"
	}
	return strings.Contains(err.Error(), fmt.Sprintf("%s, %d bytes of ", path, size)) && strings.Contains(err.Error(), own)
}

// TestReplacedBeforeClose checks that Close reports ErrReplaced even without changes to write.
func TestReplacedBeforeClose(t *testing.T) {
	s, _, path, backup := replaced(t)
	if err := s.Close(); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("close: %v", err)
	}
	if !bytes.Equal(readFile(t, path), backup) {
		t.Error("the other file was written")
	}
}

// TestReplacedFileIsMovedAway checks that a store whose file was replaced writes again after the other file was
// removed: to a new file, or to its own file if that was moved back.
func TestReplacedFileIsMovedAway(t *testing.T) {
	for name, back := range map[string]func(path string) error{
		"moved away": func(path string) error { return os.Rename(path, path+"-other") },
		"moved back": func(path string) error { return os.Rename(path+"-away", path) },
	} {
		t.Run(name, func(t *testing.T) {
			s, c, path, _ := replaced(t)
			apply(t, c, "7", upsert("a/z", "7"))
			if err := s.Flush(t.Context()); !errors.Is(err, store.ErrReplaced) {
				t.Fatalf("a commit: %v", err)
			}
			if err := errors.Join(back(path), s.Flush(t.Context()), s.CommitErr(), s.Close()); err != nil {
				t.Fatal(err)
			}
			wantStrings(t, "the next process finds", stored(t, path),
				"a/x uid=uid-a/x rv=1", "a/y uid=uid-a/y rv=6", "a/z uid=uid-a/z rv=7", "7")
		})
	}
}

func lock(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	return restrict(t, dir, 0)
}

// restrict sets the mode of a file or directory until the test ends or restore is called. Meanwhile a test that runs as
// root runs as another user, since modes do not restrict root.
func restrict(t *testing.T, path string, mode fs.FileMode) (restore func()) {
	t.Helper()
	root := os.Geteuid() == 0
	err := os.Chmod(path, mode)
	if root {
		err = errors.Join(err, syscall.Setreuid(-1, 65534))
	}
	restore = sync.OnceFunc(func() {
		if root {
			_ = syscall.Setreuid(-1, 0)
		}
		_ = os.Chmod(path, 0o700)
	})
	t.Cleanup(restore)
	if err != nil {
		t.Fatal(err)
	}
	return restore
}

// TestLockedDirectory checks that a store continues, and logs once, if its directory cannot be read any more.
func TestLockedDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "s.db")
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	s, err := store.Open(path, store.Options{Logger: &log, CommitInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
	unlock := lock(t, filepath.Dir(path))
	for _, rv := range []string{"6", "7"} {
		apply(t, c, rv, upsert("a/y", rv))
		flush(t, s)
	}
	err = s.Close()
	unlock()
	if err != nil {
		t.Error(err)
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "permission denied") {
		t.Errorf("logged: %q", logged)
	}
	wantStrings(t, "the next process finds", stored(t, path), "a/x uid=uid-a/x rv=1", "a/y uid=uid-a/y rv=7", "7")
}

// TestRemovedInALockedDirectory checks that commits fail as long as a removed file cannot be created again.
func TestRemovedInALockedDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "s.db")
	s := openAt(t, path, byHand())
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	unlock := lock(t, filepath.Dir(path))
	apply(t, c, "6", upsert("a/y", "6"))
	if err := s.Flush(t.Context()); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("a commit: %v", err)
	}
	unlock()
	flush(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wantStrings(t, "the next process finds", stored(t, path), "a/x uid=uid-a/x rv=1", "a/y uid=uid-a/y rv=6", "6")
}

// TestRecreatingTheFileFails checks that after a failed attempt to create a removed file again, the store waits a
// minute before the next attempt. Here the new file would exceed MaxSize.
func TestRecreatingTheFileFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s.db")
		s := openAt(t, path, byHand())
		c := openPodsWith(t, s, store.CollectionOptions{Compression: store.NoCompression})
		relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1", storetest.ColorLabel, strings.Repeat("x", 1<<20)))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		o := byHand()
		o.MaxSize = 256 << 10
		s = openAt(t, path, o)
		c = openPodsWith(t, s, store.CollectionOptions{Compression: store.NoCompression})
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		apply(t, c, "6", remove("a/x", "6"))
		tries := func(within time.Duration) (tried bool) {
			t.Helper()
			long := time.Unix(1e9, 0)
			if err := os.Chtimes(filepath.Dir(path), long, long); err != nil {
				t.Fatal(err)
			}
			time.Sleep(within)
			if err := s.Flush(t.Context()); !errors.Is(err, store.ErrNoSpace) || !strings.Contains(err.Error(), "was removed") {
				t.Errorf("a commit: %v", err)
			}
			info, err := os.Stat(filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			return !info.ModTime().Equal(long)
		}
		if first, second, third := tries(0), tries(0), tries(time.Minute); !first || second || !third {
			t.Errorf("tried at once: %v, again: %v, within a minute: %v", first, second, third)
		}
		_ = s.Close()
	})
}

// expiring is a context that is canceled after a number of calls of its method Err.
type expiring struct {
	context.Context
	after atomic.Int64
}

func (e *expiring) Err() error {
	if e.after.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestRecreatingTheFileIsCanceled checks that a canceled attempt to create a removed file again does not delay the next
// attempt, wherever the first was canceled.
func TestRecreatingTheFileIsCanceled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := openAt(t, path, store.AtOnce(store.Options{Logger: &quiet}))
	store.NoSync(s)
	c := openPods(t, s, nil)
	relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
	given := 0
	for n := int64(1); ; n++ {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		ctx := &expiring{Context: t.Context()}
		ctx.after.Store(n)
		err := c.RetainChanges(ctx, time.Duration(n)*time.Hour)
		if err == nil {
			break
		}
		if given++; !errors.Is(err, context.Canceled) {
			t.Fatalf("a write whose context ends: %v", err)
		}
		if _, err := c.Apply(t.Context(), entry.Batch{ResourceVersion: "7"}); err != nil {
			t.Fatalf("the next write, after one whose context has ended when it was asked the %dth time: %v", n, err)
		}
	}
	if given < 5 {
		t.Errorf("only %d writes were given up", given)
	}
}
