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
)

// MustRelistDamaged is Info.MustRelist of a collection that has lost something to damage, until it is listed.
const MustRelistDamaged = "damaged"

// Rebuild writes the store anew, after ErrOutcomeUnknown or ErrDamaged. What
// can be read of the old file goes to a new one, which takes its name and its
// lock; the old one is moved aside, as a damaged file is when it is opened.
// Open collections go on working with the new file.
//
// A collection that has lost something says so: its Info.MustRelist is
// MustRelistDamaged and its Losses has grown. One whose state could not be read at all is empty, and
// gone unless it is open.
//
// If there is no such error to recover from, Rebuild checks the store, and does nothing
// if that finds nothing wrong. If it fails (the disk is full, or still failing) reads go
// on from the old file, and it can be called again. On Windows, where a file that is
// open cannot be renamed, it always fails: close the store and open it.
func (s *Store) Rebuild(ctx context.Context) error {
	switch {
	case s.ReadOnly():
		return fmt.Errorf("rebuild %s: %w", s.path, ErrReadOnly)
	case !renamesOpen:
		return fmt.Errorf("rebuild %s: not possible on this system; close the store and open it again", s.path)
	}
	s.mu.Lock()
	before, failure := s.rebuilds, s.failure
	s.mu.Unlock()
	if failure == nil {
		report, err := s.Check(ctx)
		if err != nil || len(report.Problems) == 0 {
			return err
		}
		failure = fmt.Errorf("%w: %s", entry.ErrDamaged, report.Problems[0])
	}
	rebuilt, err := s.rebuild(ctx, before, failure)
	for _, c := range rebuilt {
		c.startBuild() // what gave up when the store failed
	}
	if err != nil {
		return fmt.Errorf("rebuild %s: %w", s.path, err)
	}
	// What could not be committed since the failure. It is tried again without us, but those who wait for room should
	// not wait for that too; CommitErr tells if it fails.
	_ = s.Flush(ctx)
	return nil
}

// rebuild does the work, unless another call has done it since before. It returns the collections that have another
// file now.
func (s *Store) rebuild(ctx context.Context, before int, why error) ([]*Collection, error) {
	release, err := s.takeWriter(ctx, rebuilding)
	if err != nil {
		return nil, err
	}
	defer release()
	if s.rebuildCount() != before {
		return nil, nil
	}
	s.setExchanging(true)
	defer s.setExchanging(false)
	old, err := s.acquire()
	if err != nil {
		return nil, err
	}
	lost, behind, err := s.renew(ctx, old, why)
	old.release()
	if err != nil {
		return nil, err
	}
	rebuilt := s.liveCollections()
	for _, c := range rebuilt { // before anybody else who waits for the rebuild goes on
		if lost[c.name] != "" {
			err = errors.Join(err, c.recount(context.WithoutCancel(ctx)))
		}
		if lost[c.name] != "" || behind[c.name] {
			err = errors.Join(err, c.beginAnew(context.WithoutCancel(ctx)))
		}
		c.forgetResidents()
	}
	s.retire(old, nil)
	return rebuilt, err
}

// recount makes the Info of what is pending that of what the file has now, which is less than it had, and of what is
// pending over it.
func (c *Collection) recount(ctx context.Context) error {
	c.front.Lock()
	defer c.front.Unlock()
	before, unsaved := c.overlay.Current()
	if !unsaved {
		return nil
	}
	return c.view(ctx, func(b *bolt.Bucket) error {
		st, err := getState(b, c.name)
		if err != nil {
			return err
		}
		objects, err := c.objects(b)
		if err != nil {
			return err
		}
		for _, x := range c.overlay.All() {
			old, err := c.stored(objects, x.Key)
			if err != nil {
				return err
			}
			st.take(x, old.found)
		}
		before.Objects, before.Newest = st.Objects, st.Newest
		if st.MustRelist != "" {
			before.MustRelist = st.MustRelist // objects are lost, or a mark of the file's own
		}
		c.overlay.Correct(func(now covers) covers { return covers{before.Info, now.settled} })
		return nil
	})
}

// renew puts a copy in the place of the old file. It takes the mark before it makes the copy, which would be in vain
// while another process opens the store. It returns which collections have lost something, and why.
func (s *Store) renew(
	ctx context.Context, old *handle, why error,
) (lost map[string]string, behind map[string]bool, err error) {
	mark, err := takeMark(ctx, s.real, time.Now().Add(s.o.lockTimeout()))
	if err != nil {
		return nil, nil, err
	}
	c, err := s.copyToNew(ctx, old)
	if err == nil {
		err = s.exchange(c, why)
	}
	if err != nil {
		// What the mark was left for is still so.
		return nil, nil, errors.Join(err, mark.release(), leaveMark(s.real))
	}
	if err := mark.release(); err != nil {
		s.logger().Error(err, "The mark beside the store could not be removed; the next process will verify the store")
	}
	return c.lost, c.behind, nil
}

// copyToNew makes a new file, not yet under the store's name, with all that can be read of the old one.
func (s *Store) copyToNew(ctx context.Context, old *handle) (*copying, error) {
	size := int64(0)
	if info, err := old.file.Stat(); err == nil {
		size = info.Size()
	}
	fresh, err := newFile(s.real, mapSize(size), s.o)
	if err != nil {
		return nil, err
	}
	c := &copying{s: s, old: old, fresh: fresh, unsafe: map[string]bool{}, lost: map[string]string{},
		copied: map[string]bool{}, behind: map[string]bool{}}
	if err = c.run(ctx); err == nil {
		err = c.write(s.putTimes)
	}
	for _, live := range s.liveCollections() {
		if err != nil {
			break
		}
		if !c.copied[live.name] && c.lost[live.name] == "" {
			c.lost[live.name] = "it could not be found"
		}
		err = c.write(func(tx *bolt.Tx) error { return live.revive(tx, c.lost[live.name] != "" || c.behind[live.name]) })
	}
	if err != nil {
		return nil, classifySpace(errors.Join(err, fresh.discard()))
	}
	return c, nil
}

// exchange gives the new file the store's name and puts it in the old one's
// place. The caller holds the mark.
func (s *Store) exchange(c *copying, why error) error {
	fresh := c.fresh
	moved, err := s.rename(c.old, fresh)
	if err != nil {
		return errors.Join(err, fresh.discard())
	}
	fresh.path = s.real
	s.mu.Lock()
	s.takeIntoUseLocked(fresh)
	s.rebuilds++
	for name := range c.lost {
		s.losses[name]++
	}
	s.mu.Unlock()
	s.tallies.renew()
	s.logger().Error(why, "The store has been written anew", "movedTo", moved, "collectionsThatLostObjects", len(c.lost))
	for name, reason := range c.lost {
		s.logger().Info("A collection has lost what could not be read, and must be listed", "collection", name, "reason",
			reason)
	}
	return nil
}

// rename moves the old file aside and gives its name to the new one. At every
// moment there is one of them at the path, where the file system has hard links. It replaces no file but the old one.
func (s *Store) rename(old, fresh *handle) (moved string, err error) {
	if hasName(old.file, s.real) {
		moved, err = setAside(s.real, linkOrRename)
		if err != nil {
			return "", fmt.Errorf("move the old file aside: %w", err)
		}
	}
	if moved != "" && hasName(old.file, s.real) { // it has two names now
		err = os.Rename(fresh.path, s.real)
	} else {
		err = takeName(fresh.path, s.real)
	}
	if errors.Is(err, ErrExists) {
		err = fmt.Errorf("another file has taken its name; move that away (%w)", errors.Join(ErrForeign, err))
	}
	if err != nil {
		return "", err
	}
	if err := syncDir(filepath.Dir(s.real)); err != nil {
		s.logger().Error(err, "The directory could not be synced: a crash of the machine may bring the old file back")
	}
	return moved, nil
}

// linkOrRename gives the file a second name, or else the new name only.
func linkOrRename(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	return os.Rename(from, to)
}

// discard closes and removes a file that has not got the store's name.
func (h *handle) discard() error {
	return errors.Join(h.close(), os.Remove(h.path))
}

// liveCollections returns the collections that are open.
func (s *Store) liveCollections() []*Collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := make([]*Collection, 0, len(s.live))
	for c := range s.live {
		live = append(live, c)
	}
	return live
}

// enlist makes c one of the live collections, unless there was a Rebuild since before. It
// waits for one that is at work, and for no other write: the disk may not finish that.
func (s *Store) enlist(ctx context.Context, c *Collection, before int) (bool, error) {
	s.mu.Lock()
	enlisted, exchanging := false, s.exchanging
	if !exchanging {
		enlisted = s.enlistLocked(c, before)
	}
	s.mu.Unlock()
	if !exchanging {
		return enlisted, nil
	}
	release, err := s.takeWriter(ctx, c.writing())
	if err != nil {
		return false, err
	}
	defer release()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enlistLocked(c, before), nil
}

func (s *Store) enlistLocked(c *Collection, before int) bool {
	if s.rebuilds != before {
		return false
	}
	s.live[c] = struct{}{}
	return true
}

// setExchanging says whether the file is being replaced by another, which is made for the collections that are open
// then.
func (s *Store) setExchanging(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanging = on
}

func (s *Store) delist(c *Collection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, c)
}

func (s *Store) rebuildCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rebuilds
}

// Losses returns how many times, since the store was opened, Rebuild has lost
// something of the collection, or of a list that was being taken into it. Who
// takes in changes must list anew when it grows.
func (c *Collection) Losses() int {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return c.store.losses[c.name]
}

// revive makes the collection's buckets in a new file if they were lost.
func (c *Collection) revive(tx *bolt.Tx, lost bool) error {
	if err := c.ensureBuckets(tx); err != nil {
		return err
	}
	b, err := collectionBucket(tx, c.name)
	if err != nil {
		return err
	}
	st, err := getState(b, c.name)
	if err != nil {
		return err
	}
	c.claim(&st, c.set.Load())
	if b, err = ensureCollection(tx, c.name, st); err != nil {
		return err
	}
	if err := c.reviveFeed(b, &st, lost); err != nil {
		return err
	}
	return putState(b, c.name, st)
}
