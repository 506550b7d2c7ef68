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

// Open opens the store at path, and makes it if there is none, with its directory. A symbolic link is followed, once,
// and never replaced; one that leads to no file yet has it made where it leads, in a directory that must be there. A
// damaged file is moved aside (see Quarantined) and a new one made; so is one whose data keys are damaged. It fails
// with ErrLocked while another process, or this one, has the store open for writing (the error says which), with
// ErrNewerFormat if a newer program wrote it, with ErrForeign if it is not a store, and with ErrWrongKey if it holds
// something sealed that Options.Encryption cannot open; it leaves the file alone then.
//
// With Options.ReadOnly nothing on the disk is changed; a file that is missing
// is an error, and a damaged one fails with ErrDamaged.
func Open(path string, o Options) (*Store, error) { return OpenContext(context.Background(), path, o) }

// OpenContext is Open for those who wait for another process for long (Options.LockTimeout), such as the one that a
// rolling update replaces: it gives up, with the cause, when ctx ends before. Once it has the file it takes no notice
// of ctx, but for giving it to the KeyProvider.
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

// newStore returns one that is not open yet.
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

// withMark calls fn while it holds the mark, and leaves one if the store has failed by then.
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
		s.leaveMark() // again, for it was ours that went away
	}
	return err
}

// openAsIs opens the file that is there. If it is damaged that is the error, and it stays where it is.
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

// fetchKeys makes the ring of the data keys, which are unwrapped when the file is open, and finds out whether their
// provider answers.
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

// start takes the handle into use for writing: the file is not clean any more.
// On a disk that is full or fails the store opens all the same, for what it can serve.
// unseen: there are branch pages that Open has not looked at.
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
		// The first write that comes looks for a file that has lost its name meanwhile: it needs the mark, which is ours now.
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

// syncLeft syncs what a process that was killed has left in the kernel: the name of the file, and its last commit. This
// process reads both, and the power may fail before they are on the disk. Then what is committed by that name is lost,
// or the commit before the last one is back, which needs pages that the next one writes over.
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

// startUpkeep begins what a store that is open for writing does in the background.
func (s *Store) startUpkeep() {
	if s.ReadOnly() {
		return
	}
	s.verifyLater()
	s.clearLeft()
	s.forgetLater(forgetFirst)
}

// verifyLater has the pages looked at that Open has not.
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

// makeDir makes the directory, and those above it, for their owner only, if they are not there. Their names are on the
// disk when it returns, unless the directory that they are in can be written and not read.
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
