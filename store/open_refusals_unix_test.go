//go:build unix

package store_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

type messages struct {
	mu  sync.Mutex
	all []string
}

// logger returns a logger that adds to m all messages up to a verbosity.
func (m *messages) logger(verbosity int) *logr.Logger {
	l := funcr.New(func(_, args string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.all = append(m.all, args)
	}, funcr.Options{Verbosity: verbosity})
	return &l
}

func (m *messages) count(text string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.all {
		if strings.Contains(one, text) {
			n++
		}
	}
	return n
}

// publicDir returns a directory that root can still access after restrict has changed the user of the process.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReadOnlyStoreHasNoUpkeep(t *testing.T) {
	path, _ := populated(t, false)
	for _, readOnly := range []bool{true, false} {
		var log messages
		mustClose(t, mustOpen(t, path, store.Options{ReadOnly: readOnly, Logger: log.logger(4)}))
		if n := log.count("Background work starts"); (n == 0) != readOnly {
			t.Errorf("read-only %t: %d", readOnly, n)
		}
	}
}

// TestOpenWhereNothingCanBeWritten checks that a store can be opened and read if the disk is full or fails. A file that
// is written nevertheless does not count as cleanly closed.
func TestOpenWhereNothingCanBeWritten(t *testing.T) {
	for says, test := range map[string]struct{ fails, write error }{
		"The disk is full": {syscall.ENOSPC, store.ErrNoSpace},
		"The disk fails":   {syscall.EIO, store.ErrOutcomeUnknown},
		"The disk":         {},
	} {
		path, all := populated(t, true)
		var log messages
		o, g := gated(store.Options{Logger: log.logger(0)})
		g.Fail(func() error { return test.fails })
		s := mustOpen(t, path, o)
		if got, err := readAll(s); err != nil || len(got) != len(all) {
			t.Errorf("%s: %d of %d entries, %v", says, len(got), len(all), err)
		}
		if n := log.count(says); (n == 1) != (test.fails != nil) || s.Err() != nil {
			t.Errorf("%s: logged %d times; Err: %v", says, n, s.Err())
		}
		if err := put(s, nil, "k"); !errors.Is(err, test.write) {
			t.Errorf("%s: write: %v", says, err)
		}
		g.Fail(nil)
		if errors.Is(test.write, store.ErrOutcomeUnknown) { // what put writes is no collection, so it cannot be copied
			_ = s.Close()
			continue
		}
		if err := put(s, nil, "k"); err != nil {
			t.Errorf("%s: write with room: %v", says, err)
		}
		if closedCleanly(t, mustCrash(t, s)) {
			t.Errorf("%s: the file says that it was closed cleanly, and it was not", says)
		}
		mustClose(t, s)
	}
}

// TestTrimmingWithoutSpace checks that a write that finds no space causes only one attempt to remove tombstones, even
// if that attempt finds no space either.
func TestTrimmingWithoutSpace(t *testing.T) {
	o, g := gated(byHand())
	s := storetest.Open(t, o)
	c := openPods(t, s, nil)
	f := cursorOf(t, c, "h")
	retainChanges(t, c, time.Hour)
	apply(t, c, "1", upsert("a/x", "1"))
	flush(t, s)
	apply(t, c, "2", remove("a/x", "2"))
	flush(t, s)
	catchUp(t, f)
	flush(t, s)
	apply(t, c, "3", upsert("a/y", "3"))
	attempts := 0
	g.Fail(func() error {
		if attempts++; attempts > 10 {
			return syscall.EIO
		}
		return syscall.ENOSPC
	})
	why := errors.New("why")
	if err := store.UpdateFile(t.Context(), s, func(*bolt.Tx) error { return why }); !errors.Is(err, why) || attempts > 0 {
		t.Errorf("a write that fails for another reason: %d commits, %v", attempts, err)
	}
	if err := s.Flush(t.Context()); !errors.Is(err, store.ErrNoSpace) || attempts != 2 {
		t.Errorf("%d commits: %v", attempts, err)
	}
	g.Fail(nil)
	flush(t, s)
}

// TestOpenLeavesBranchesToTheBackground checks that Open verifies a bounded number of branch pages itself.
func TestOpenLeavesBranchesToTheBackground(t *testing.T) {
	for _, keys := range []int{10, 3000} {
		path := filepath.Join(t.TempDir(), "store")
		s := mustOpen(t, path, store.Options{})
		names := make([]string, keys)
		for n := range names {
			names[n] = strings.Repeat("k", 1000) + string(rune('a'+n/100)) + string(rune('a'+n%100))
		}
		if err := put(s, nil, names...); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		var log messages
		mustClose(t, mustOpen(t, path, store.Options{Logger: log.logger(4)}))
		if n := log.count("verify the file"); (n > 0) != (keys > 10) {
			t.Errorf("%d keys: %d", keys, n)
		}
	}
}

// TestDirectoryThatCannotBeListed checks a directory that the process may write but not read: stores can be created and
// moved aside in it, but the directory is not synced, which is logged.
func TestDirectoryThatCannotBeListed(t *testing.T) {
	for _, name := range []string{"store", "sub/store"} {
		for _, damaged := range []bool{false, true} {
			dir := filepath.Join(publicDir(t), "d")
			path := filepath.Join(dir, name)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			restore := restrict(t, dir, 0o333)
			var log messages
			o := store.Options{Logger: log.logger(0), LockTimeout: -1}
			s, err := store.Open(path, o)
			if err == nil && damaged {
				err = errors.Join(s.Close(), os.WriteFile(path, make([]byte, 9000), 0o600))
				if err == nil {
					s, err = store.Open(path, o)
				}
			}
			if err != nil {
				t.Fatalf("%s, damaged %t: %v", name, damaged, err)
			}
			moved := s.Quarantined()
			err = s.Close()
			restore()
			if _, there := os.Stat(moved); err != nil || damaged != (there == nil) {
				t.Errorf("%s, damaged %t: moved to %q (%v), %v", name, damaged, moved, there, err)
			}
			if n := log.count("The directory could not be synced"); (n > 0) != (name == "store") {
				t.Errorf("%s: logged %d times", name, n)
			}
		}
	}
}

func TestDirectoryThatCannotBeMade(t *testing.T) {
	dir := filepath.Join(publicDir(t), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	restore := restrict(t, dir, 0o555)
	for _, path := range []string{"a/store", "a/b/c/store"} {
		_, err := store.Open(filepath.Join(dir, path), store.Options{Logger: &quiet})
		_, importing := store.NewImport(t.Context(), filepath.Join(dir, path), store.ImportOptions{})
		for what, err := range map[string]error{"open": err, "import": importing} {
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), filepath.Join(dir, "a")+": ") {
				t.Errorf("%s %s: %v", what, path, err)
			}
		}
	}
	restore()
	wantNames(t, dir)
}

// TestDirectoryThatIsALinkToNothing checks that Open does not create the target of a dangling symlink.
func TestDirectoryThatIsALinkToNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "none"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open(filepath.Join(dir, "link", "store"), store.Options{Logger: &quiet})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "there is no directory") {
		t.Errorf("Open: %v", err)
	}
	wantNames(t, dir, "link")
}

func TestFileThatMayNotBeRead(t *testing.T) {
	dir := publicDir(t)
	path := filepath.Join(dir, "store")
	mustClose(t, mustOpen(t, path, store.Options{}))
	before := readFile(t, path)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	restore := restrict(t, path, 0)
	_, writing := store.Open(path, store.Options{Logger: &quiet, LockTimeout: -1})
	_, reading := store.Open(path, store.Options{Logger: &quiet, LockTimeout: -1, ReadOnly: true})
	_, compacting := store.Compact(t.Context(), path, store.Options{Logger: &quiet, LockTimeout: -1})
	restore()
	for what, err := range map[string]error{"write": writing, "read": reading, "compact": compacting} {
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantNames(t, dir, "store")
	if string(readFile(t, path)) != string(before) {
		t.Error("the file was changed")
	}
}

// TestOpenWithoutFileDescriptors checks that a process at its limit of open files neither creates a store nor moves one
// aside, and that the error names the failed step.
func TestOpenWithoutFileDescriptors(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	open := func(path string, o store.Options) error {
		t.Helper()
		none := limit
		none.Cur = 0
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
			t.Fatal(err)
		}
		o.Logger = &quiet
		_, err := store.Open(path, o)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		return err
	}
	for says, path := range map[string]string{
		"sync the directory " + dir: filepath.Join(dir, "new", "store"),
		"leave a mark":              filepath.Join(dir, "store"),
	} {
		if err := open(path, store.Options{}); !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	wantNames(t, dir, "new")
}

// TestNameWithoutRoomForATemporaryFile checks that Open reports why it cannot create the file, and leaves no file.
func TestNameWithoutRoomForATemporaryFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("s", 255-len(disk.SuffixOpening)))
	_, err := store.Open(path, store.Options{Logger: &quiet})
	if !errors.Is(err, syscall.ENAMETOOLONG) || !strings.Contains(err.Error(), "make it: ") {
		t.Errorf("Open: %v", err)
	}
	wantNames(t, dir)
}

// TestMarkThatIsRemovedByAnother checks that Open only logs the loss of its ".opening" file to another program.
func TestMarkThatIsRemovedByAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	var log messages
	s := mustOpen(t, path, store.Options{Logger: log.logger(0), Hooks: &hook.Hooks{Wall: func() time.Time {
		_ = os.Remove(path + disk.SuffixOpening)
		return time.Now()
	}}})
	if err := put(s, nil, "k"); err != nil || log.count("The mark beside the store could not be removed") != 1 {
		t.Errorf("%v; logged %q", err, log.all)
	}
	mustClose(t, s)
}

// TestFailureThatLeavesNoMark checks a failing store whose ".opening" file, which makes the next process verify the
// store, cannot be created. The store must log that the next process will not verify the file.
func TestFailureThatLeavesNoMark(t *testing.T) {
	var log messages
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{Logger: log.logger(0)})
	if err := os.Mkdir(s.Path()+disk.SuffixOpening, 0o700); err != nil {
		t.Fatal(err)
	}
	failNow(t, s)
	if log.count("No mark could be left for the next process") != 1 {
		t.Errorf("logged %q", log.all)
	}
	if err := s.Close(); !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("close: %v", err)
	}
}

func TestQuarantineTwiceInOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store")
		moved := map[string]bool{}
		for range 2 {
			if err := os.WriteFile(path, make([]byte, 9000), 0o600); err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, path, store.Options{})
			moved[s.Quarantined()] = true
			mustClose(t, s)
		}
		if kept := disk.Beside(path, disk.SuffixDamaged); len(kept) != 2 || !moved[kept[0]] || !moved[kept[1]] {
			t.Errorf("moved to %v, kept are %q", moved, kept)
		}
	})
}

// TestFormatVersionThatIsDamaged checks that a store whose format version is missing or has a wrong checksum is treated
// as damaged, and not as a newer format.
func TestFormatVersionThatIsDamaged(t *testing.T) {
	key := []byte("format")
	for what, damage := range map[string]func(b *bolt.Bucket) error{
		"missing": func(b *bolt.Bucket) error { return b.Delete(key) },
		"short":   func(b *bolt.Bucket) error { return b.Put(key, b.Get(key)[:8]) },
		"flipped": func(b *bolt.Bucket) error {
			v := append([]byte(nil), b.Get(key)...)
			v[0] ^= 1 // the checksum must stay wrong: with a correct checksum the version would be a newer format
			return b.Put(key, v)
		},
	} {
		path := filepath.Join(t.TempDir(), "store")
		s := mustOpen(t, path, store.Options{})
		err := store.UpdateFile(t.Context(), s, func(tx *bolt.Tx) error { return damage(tx.Bucket(disk.Root)) })
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		if _, err := store.Open(path, store.Options{ReadOnly: true}); !errors.Is(err, entry.ErrDamaged) ||
			!strings.Contains(err.Error(), "format version is missing or wrong") {
			t.Errorf("%s: %v", what, err)
		}
		s = mustOpen(t, path, store.Options{})
		if s.Quarantined() == "" {
			t.Errorf("%s: it was used", what)
		}
		mustClose(t, s)
	}
}

// TestFileThatCannotBeRead checks that a transaction fails if the meta pages cannot be read, and that this does not
// count as damage: the next transaction may succeed.
func TestFileThatCannotBeRead(t *testing.T) {
	path, all := populated(t, true)
	s := mustOpen(t, path, store.Options{})
	store.WaitBackground(s)
	closed, err := os.Open(path)
	if err := errors.Join(err, closed.Close()); err != nil {
		t.Fatal(err)
	}
	_, restore := store.LookAt(s, closed)
	_, reading := readAll(s)
	for what, err := range map[string]error{"read": reading, "write": put(s, nil, "k")} {
		if !errors.Is(err, os.ErrClosed) || isDamaged(err) || !strings.Contains(err.Error(), "read "+path) {
			t.Errorf("%s: %v", what, err)
		}
	}
	restore()
	if got, err := readAll(s); err != nil || len(got) != len(all) || s.Err() != nil {
		t.Errorf("%d of %d entries, %v; Err: %v", len(got), len(all), err, s.Err())
	}
	mustClose(t, s)
}

// TestRollbackThatPanics checks that damage that bbolt finds in the rollback of a commit is returned as an error, and
// leaves no lock on which readers and Close would block.
func TestRollbackThatPanics(t *testing.T) {
	path, _ := populated(t, true)
	s := mustOpen(t, path, store.Options{MaxSize: 1})
	store.WaitBackground(s)
	err := store.UpdateFile(t.Context(), s, func(tx *bolt.Tx) error {
		patch(t, s, func(data []byte) {
			at := pagesOf(t, data)["freelist"][0]
			clear(data[at : at+filePageSize])
		})
		return tx.Bucket(disk.Root).Put([]byte("k"), make([]byte, 50<<20)) // exceeds the file's MaxSize
	})
	if !isDamaged(err) || !isDamaged(s.Err()) {
		t.Errorf("write: %v; Err: %v", err, s.Err())
	}
	if _, err := readAll(s); err != nil && !isDamaged(err) {
		t.Errorf("read: %v", err)
	}
	mustClose(t, s)
}

// TestWriteToAnOverwrittenFile checks that a write notices that another file was copied over the open file, even
// without a read in between, and does not change that file.
func TestWriteToAnOverwrittenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := openAt(t, path, byHand())
	other := another(t, true)
	overwrite(t, path, other)
	for range 2 {
		if err := put(s, nil, "k"); !errors.Is(err, store.ErrOverwritten) {
			t.Errorf("write: %v", err)
		}
	}
	if string(readFile(t, path)) != string(other) {
		t.Error("the other file was written")
	}
	if err := s.Close(); !errors.Is(err, store.ErrOverwritten) {
		t.Errorf("close: %v", err)
	}
}

// TestDirectoryThatBecomesAFile checks that a store is not written while its path cannot be resolved.
func TestDirectoryThatBecomesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "s.db")
	s := openAt(t, path, byHand())
	dir := filepath.Dir(path)
	if err := errors.Join(os.Rename(dir, dir+"-old"), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := put(s, nil, "k"); !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), path) {
		t.Errorf("write: %v", err)
	}
	if err := errors.Join(os.Remove(dir), os.Rename(dir+"-old", dir), put(s, nil, "k"), s.Close()); err != nil {
		t.Error(err)
	}
}

// laterProvider is a KeyProvider that fails after Open has opened the file.
type laterProvider struct {
	*seal.Keys
	asked                int
	secondCurrent, wraps error
	short                bool
}

func (p *laterProvider) CurrentKey(ctx context.Context) (string, error) {
	if p.asked++; p.asked > 1 && p.secondCurrent != nil {
		return "", p.secondCurrent
	}
	return p.Keys.CurrentKey(ctx)
}

func (p *laterProvider) Wrap(ctx context.Context, key []byte) (string, []byte, error) {
	if p.wraps != nil {
		return "", nil, p.wraps
	}
	return p.Keys.Wrap(ctx, key)
}

func (p *laterProvider) Unwrap(ctx context.Context, id string, wrapped []byte) ([]byte, error) {
	key, err := p.Keys.Unwrap(ctx, id, wrapped)
	if p.short && err == nil {
		key = key[:16]
	}
	return key, err
}

// TestKeyProviderThatFailsLater checks that Open names the failed call of the KeyProvider, and keeps the file.
func TestKeyProviderThatFailsLater(t *testing.T) {
	why := errors.New("the KMS is away")
	e := sealing(t, mustKey(t, ""))
	keys, ok := e.Keys.(*seal.Keys)
	if !ok {
		t.Fatalf("%T", e.Keys)
	}
	for says, test := range map[string]struct {
		provider *laterProvider
		stored   bool
		want     error
	}{
		"ask for the current key": {&laterProvider{Keys: keys, secondCurrent: why}, false, why},
		"wrap a new data key":     {&laterProvider{Keys: keys, wraps: why}, false, why},
		"a data key of 16 bytes":  {&laterProvider{Keys: keys, short: true}, true, seal.ErrWrongKey},
	} {
		path := filepath.Join(t.TempDir(), "store")
		if test.stored {
			writeSealed(t, path, 1, e)
		}
		_, err := store.Open(path, store.Options{Logger: &quiet, Encryption: &seal.Encryption{Keys: test.provider}})
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		wantNames(t, filepath.Dir(path), "store")
		mustClose(t, mustOpen(t, path, store.Options{Encryption: e, LockTimeout: -1}))
	}
}

// TestFileThatAppearsBeforeAnImport checks that an import does not replace a file made while it waited for the lock.
func TestFileThatAppearsBeforeAnImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store")
		mark, err := os.Create(path + disk.SuffixOpening)
		if err == nil {
			err = syscall.Flock(int(mark.Fd()), syscall.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := store.NewImport(t.Context(), path, store.ImportOptions{Store: store.Options{Logger: &quiet}})
			done <- err
		}()
		synctest.Wait() // until the import waits for the lock on the ".opening" file
		if err := errors.Join(os.WriteFile(path, []byte("another's"), 0o600), mark.Close()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, store.ErrExists) {
			t.Errorf("import: %v", err)
		}
		wantNames(t, filepath.Dir(path), "store")
	})
}
