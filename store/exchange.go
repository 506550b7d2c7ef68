package store

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/copier"
	"github.com/larder-dev/larder/store/seal"
)

// copier returns a copier of the open file, which exchange completes. It copies the file as it is, or sealed with key
// if that is not nil.
func (s *Store) copier(key *seal.DataKey) *copier.Copier {
	return &copier.Copier{Path: s.real, Creating: s.creating(0), Settle: s.settle, Opener: s.opener, Key: key,
		Seals: s.Seals}
}

// exchange copies the store's file with c, calls take, which gives the copy the store's name, and makes the store use
// the copy. At every moment a whole file has the name. If exchange fails, the store still uses the old file, and the
// copy is removed. The caller has the writer's place.
//
// exchange holds the mark meanwhile: a process that opens the store would otherwise remove the copy as debris.
func (s *Store) exchange(ctx context.Context, c *copier.Copier, take func() error) (err error) {
	if c.Old, err = s.acquire(); err != nil {
		return err
	}
	defer c.Old.Release()
	return s.withMark(ctx, time.Now().Add(s.o.lockTimeout()), func(*boltfile.Mark) error {
		if err := c.Copy(ctx); err != nil {
			return err
		}
		if err := take(); err != nil {
			return errors.Join(err, c.Fresh.Discard())
		}
		s.moveIn(c)
		return nil
	})
}

// moveIn makes the store use a copy that has the store's name already, and closes the old file.
func (s *Store) moveIn(c *copier.Copier) {
	if err := boltfile.SyncDir(filepath.Dir(s.real)); err != nil {
		s.logger().Error(err, "The directory could not be synced: a crash of the machine may undo that the file got its name")
	}
	c.Fresh.Path = s.real
	if c.Key != nil { // before readers use the copy; there is no writer now
		s.keys.add(c.Key, c.KeyRecord)
	}
	s.mu.Lock()
	s.takeIntoUseLocked(c.Fresh)
	if c.Salvage {
		s.rebuilds++
	}
	for name := range c.Lost {
		s.losses[name]++
	}
	s.mu.Unlock()
	s.retire(c.Old, c.Key)
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
