package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/internal/realpath"
	"github.com/larder-dev/larder/store/internal/boltfile"
)

// Open opens the store at path. If there is none it makes one, with its directory. A symbolic link is followed once and
// never replaced; if its target is missing the store is made there, in a directory that must exist. A file that is
// damaged, or whose data keys are, is moved aside (see Quarantined), and a new one is made.
//
// Open fails with ErrLocked while another process, or this one, has the store open for writing (the error says which),
// with ErrNewerFormat if a newer program wrote the file, with ErrForeign if it is not a store, and with ErrWrongKey if
// Options.Encryption cannot unwrap its data keys. It does not change the file then.
//
// With Options.ReadOnly Open changes nothing on the disk. It fails if the file
// is missing, and with ErrDamaged if the file is damaged.
func Open(path string, o Options) (*Store, error) { return OpenContext(context.Background(), path, o) }

// OpenContext is Open with a context, for a long Options.LockTimeout: during a rolling update, for example, a process
// waits for the one that it replaces. It fails with the cause of ctx if ctx ends before it has the file. After that it
// only passes ctx to the KeyProvider.
func OpenContext(ctx context.Context, path string, o Options) (*Store, error) {
	if path == "" {
		return nil, errors.New("open the store: the path is empty; name the file to open or to make")
	}
	s := newStore(path, o)
	if err := s.fetchKeys(ctx); err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	open := s.openToWrite
	if o.ReadOnly {
		open = s.openToRead
	}
	err := open(ctx, time.Now().Add(o.lockTimeout()))
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	s.startUpkeep()
	return s, nil
}

// newStore returns a Store that is not open yet.
func newStore(path string, o Options) *Store {
	return &Store{
		path: path, o: o, writer: make(chan struct{}, 1), commits: newCommits(roomOf(o.Hooks)), link: limiter.New(),
		hooks: hooksOf(o.Hooks), ending: newEnding(),
		losses: map[string]int{}, live: map[*Collection]struct{}{}, failed: make(chan struct{}), exchanging: patient.New(),
	}
}

// openTries bounds how often a damaged file is moved aside in one Open.
const openTries = 3

func (s *Store) openToWrite(ctx context.Context, deadline time.Time) error {
	if err := makeDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	if err := s.resolve(); err != nil {
		return err
	}
	return s.withMark(ctx, deadline, func(mark *boltfile.Mark) error {
		for range openTries {
			if err := s.ensureFile(); err != nil {
				return err
			}
			err := s.openAsIs(ctx, mark, deadline)
			if !errors.Is(err, entry.ErrDamaged) {
				return err
			}
			if err := s.quarantine(err); err != nil {
				return err
			}
		}
		return fmt.Errorf("it was damaged each time it was made anew: %w", entry.ErrDamaged)
	})
}

// resolve follows the symbolic links of the path, once: a link that is put in place of the file later is never
// followed.
func (s *Store) resolve() (err error) {
	s.real, err = realpath.Of(s.path)
	return err
}

// withMark calls fn while it holds the mark. If the store has failed by then it leaves a mark behind.
func (s *Store) withMark(ctx context.Context, deadline time.Time, fn func(mark *boltfile.Mark) error) error {
	mark, err := boltfile.TakeMark(ctx, s.real, deadline)
	if err != nil {
		return err
	}
	err = fn(mark)
	if released := mark.Release(); released != nil {
		s.logger().Error(released, "The mark beside the store could not be removed; the next process will verify the store")
	}
	if s.Err() != nil {
		s.leaveMark() // again, because Release has removed our mark
	}
	return err
}

// openAsIs opens the existing file. It fails with ErrDamaged if the file is damaged, and does not move it.
func (s *Store) openAsIs(ctx context.Context, mark *boltfile.Mark, deadline time.Time) error {
	f, err := boltfile.OpenLocked(ctx, s.real, os.O_RDWR, true, deadline)
	if err != nil {
		return err
	}
	boltfile.RemoveDebris(s.real)
	mark.Count()
	var rt root
	o := boltfile.Opening{
		Path: s.real, File: f, MaxSize: s.o.MaxSize, BranchBytes: boltfile.BranchBytes, Verify: mark.Crashes > 0,
		Accept: accepting(&rt), Ours: rootPageIsOurs,
	}
	h, err := o.Open()
	if err != nil {
		return err
	}
	if err := s.unlock(ctx, h, true); err != nil {
		return errors.Join(o.Judge(err), h.Close())
	}
	return o.Judge(s.start(h, rt, o.Unseen))
}

func (s *Store) openToRead(ctx context.Context, deadline time.Time) error {
	var f *os.File
	err := s.resolve()
	if err == nil {
		f, err = boltfile.OpenLocked(ctx, s.real, os.O_RDONLY, false, deadline)
	}
	if boltfile.IsMissing(err) {
		return fmt.Errorf("there is none, and opening for reading makes none: %w", err)
	}
	if err != nil {
		return err
	}
	o := boltfile.Opening{
		Path: s.real, File: f, ReadOnly: true, BranchBytes: boltfile.BranchBytes, Verify: boltfile.CrashesSaid(s.real) > 0,
		Accept: accepting(new(root)), Ours: rootPageIsOurs,
	}
	h, err := o.Open()
	if err != nil {
		return err
	}
	if err := s.unlock(ctx, h, false); err != nil {
		return errors.Join(o.Judge(err), h.Close())
	}
	s.handle = h
	return nil
}

// fetchKeys creates the keyring, whose data keys are unwrapped once the file is open. It fails if the KeyProvider does
// not answer.
func (s *Store) fetchKeys(ctx context.Context) (err error) {
	if s.keys, err = newKeyring(s.o.Encryption); err != nil || s.keys == nil {
		return err
	}
	if keys, ok := s.o.Encryption.Keys.(interface{ ExposedFile() string }); ok && keys.ExposedFile() != "" {
		s.logger().Info("Everybody on this machine can read the keys of the store; give the file mode 0400", "keys",
			keys.ExposedFile())
	}
	if _, err := s.keys.provider.CurrentKey(ctx); err != nil {
		return fmt.Errorf("ask for the current key: %w", err)
	}
	return nil
}

// start takes the handle into use for writing and removes the mark of a clean close.
// If the disk is full or fails, the store is still opened for reading.
// unseen says that there are branch pages that Open has not checked.
func (s *Store) start(h *boltfile.Handle, rt root, unseen bool) error {
	s.handle = h
	s.steady.Store(rt.times.resume(s.wall()))
	begin := func(tx *bolt.Tx) error {
		if err := rt.begin(tx); err != nil {
			return err
		}
		return s.putTimes(tx)
	}
	err := s.syncLeft(h)
	if err == nil {
		// updateOpen does not check that the file still has its name: that needs the mark, which we hold. Later writes do.
		err = s.updateOpen(upkeep, begin)
	}
	switch {
	case errors.Is(err, ErrNoSpace):
		s.logger().Error(err, "The disk is full: the store can be read, and not be written")
	case errors.Is(err, ErrOutcomeUnknown):
		s.logger().Error(err, "The disk fails: the store can be read, and not be written")
	case err != nil:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.takeIntoUseLocked(nil)
		return errors.Join(err, h.Close())
	}
	s.unverified, s.wasClean = !rt.clean || unseen, rt.clean
	return nil
}

// syncLeft syncs the name of the file and its last commit, which a killed process may have left in the kernel only.
// Without it a power failure could lose the name, and all that this process commits. Or it could bring back the commit
// before the last one, whose pages the next commit overwrites.
func (s *Store) syncLeft(h *boltfile.Handle) error {
	if err := boltfile.SyncDir(filepath.Dir(s.real)); err != nil {
		s.logger().Error(err, "The directory could not be synced: if another process has just made the file, a crash of "+
			"the machine may undo that")
	}
	if err := h.File.Sync(); err != nil {
		err = fmt.Errorf("sync %s: %w: %w", s.path, ErrOutcomeUnknown, err)
		s.fail(h, err)
		return err
	}
	return nil
}

// startUpkeep starts the background work of a store that is open for writing.
func (s *Store) startUpkeep() {
	if s.ReadOnly() {
		return
	}
	s.verifyLater()
	s.clearLeft()
	s.forgetLater(forgetFirst)
}

// verifyLater starts a background check of the pages that Open has not checked.
func (s *Store) verifyLater() {
	if s.unverified {
		s.goBackground("verify the pages", func(ctx context.Context) { s.verifyInBackground(ctx, s.wasClean) })
	}
}

// ensureFile makes the store's file if there is none, or an empty one.
func (s *Store) ensureFile() error {
	info, err := os.Lstat(s.real)
	switch {
	case boltfile.IsMissing(err):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: it is no regular file", ErrForeign)
	case info.Size() > 0:
		return nil
	default:
		s.logger().Info("The store is an empty file, as a crash can leave it; it is made anew")
	}
	return boltfile.Create(s.real, s.creatingUnbounded())
}

// makeDir makes the directory and its missing parents, for their owner only. When it returns their names are on the
// disk, unless the parent directory cannot be opened for reading.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); !boltfile.IsMissing(err) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := boltfile.SyncDir(parent); err != nil && !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("sync the directory %s: %w", parent, err)
	}
	return nil
}
