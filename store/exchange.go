package store

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/seal"
)

// exchange has c copy the store's file, take give the copy the store's name, and makes the copy the file that the store
// uses. At every moment one of the two is there, whole, and if it fails it is the old one, and nothing is left of the
// copy. The caller has the writer's place.
//
// It holds the mark meanwhile, so that no process that opens the store takes the copy for debris, and makes no copy in
// vain while another opens the store.
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

// moveIn makes a copy that has got the store's name the file that the store uses, and closes the old one.
func (s *Store) moveIn(c *copier) {
	if err := boltfile.SyncDir(filepath.Dir(s.real)); err != nil {
		s.logger().Error(err, "The directory could not be synced: a crash of the machine may undo that the file got its name")
	}
	c.fresh.Path = s.real
	if c.key != nil { // who reads the copy needs it at once, and nobody writes
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

// retire closes a file that the store uses no more, once those who read it are done. Nobody waits for that but Close.
// If the file that replaced it is sealed with key alone, the other keys are forgotten then; they stay in memory while
// another file is being retired.
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
