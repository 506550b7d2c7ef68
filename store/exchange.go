package store

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/seal"
)

// exchange copies the store's file with c, calls take, which gives the copy the store's name, and makes the store use
// the copy. At every moment a whole file has the name. If exchange fails, the store still uses the old file, and the
// copy is removed. The caller has the writer's place.
//
// exchange holds the mark meanwhile: a process that opens the store would otherwise remove the copy as debris.
func (s *Store) exchange(ctx context.Context, c *copier, take func() error) (err error) {
	if c.old, err = s.acquire(); err != nil {
		return err
	}
	defer c.old.Release()
	return s.withMark(ctx, time.Now().Add(s.o.lockTimeout()), func(*boltfile.Mark) error {
		if err := c.copy(ctx); err != nil {
			return err
		}
		if err := take(); err != nil {
			return errors.Join(err, c.fresh.Discard())
		}
		s.moveIn(c)
		return nil
	})
}

// moveIn makes the store use a copy that has the store's name already, and closes the old file.
func (s *Store) moveIn(c *copier) {
	if err := boltfile.SyncDir(filepath.Dir(s.real)); err != nil {
		s.logger().Error(err, "The directory could not be synced: a crash of the machine may undo that the file got its name")
	}
	c.fresh.Path = s.real
	if c.key != nil { // before readers use the copy; there is no writer now
		s.keys.add(c.key, c.keyRecord)
	}
	s.mu.Lock()
	s.takeIntoUseLocked(c.fresh)
	if c.salvage {
		s.rebuilds++
	}
	for name := range c.lost {
		s.losses[name]++
	}
	s.mu.Unlock()
	s.retire(c.old, c.key)
}

// retire closes, in the background, a file that the store no longer uses, once its readers are done. If key is not nil,
// the new file is sealed with key alone, and retire then forgets the other keys, unless another file is being retired.
func (s *Store) retire(old *boltfile.Handle, key *seal.DataKey) {
	s.retiring.Add(1)
	s.goBackground("close the file that has been replaced", func(context.Context) {
		if err := old.Close(); err != nil {
			s.logger().Error(err, "The file that has been replaced could not be closed")
		}
		if s.retiring.Add(-1) == 0 && key != nil {
			s.keys.forgetOthers(key)
		}
	})
}
