package store

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/engine"
)

// lockWrites locks mu, and fails if ctx ends first: a goroutine that waits for the disk may hold mu for long. Lock
// order: mu, then commits.LockFlush, then boltfile.File.TakeWriter.
func (c *Collection) lockWrites(ctx context.Context) error {
	if err := c.mu.LockContext(ctx); err != nil {
		return fmt.Errorf("wait for another write of %s: %w", c.id, err)
	}
	return nil
}

func (c *Collection) target() engine.WriterTarget {
	return engine.WriterTarget{
		Read: &c.read, Compressor: c.compressor, Cursors: &c.cursors, Tombstones: c.tombstones, Now: c.store.file.Times,
		Watched: c.in.History != nil, Recorded: c.recorded.Load(),
	}
}

func (c *Collection) update(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return c.store.file.Update(ctx, c.writing(), fn)
}

func (c *Collection) writing() boltfile.Work {
	return boltfile.Work{What: "a write of " + c.id.String()}
}

func (c *Collection) writeLocked(ctx context.Context, fn func(w *engine.Writer) error) error {
	return c.writeLockedFor(ctx, c.writing(), fn)
}

// writeLockedFor runs fn in a write transaction. Errors of other waiting writers contain what. The caller holds mu.
func (c *Collection) writeLockedFor(ctx context.Context, what boltfile.Work, fn func(w *engine.Writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.readOnly {
		return ErrReadOnly
	}
	var cursors *changelog.Snapshot
	return c.store.file.UpdateThen(ctx, what, func(tx *bolt.Tx) error {
		w, err := engine.BeginWriter(tx, c.target())
		if err != nil {
			return err
		}
		if err := fn(w); err != nil {
			return err
		}
		if cursors, err = w.Log.Settle(false); err != nil {
			return err
		}
		return w.Put()
	}, func(err error) { // UpdateThen calls this function before another writer can begin
		c.cursors.Written(cursors, err)
	})
}

// storedObject returns the object of a record: from memory if UID and resourceVersion are equal, and decoded otherwise.
func (c *Collection) storedObject(key string, s engine.StoredRecord) (runtime.Object, error) {
	if r := c.inMemory(); r != nil && s.Found {
		if now := r.State(key); now != nil && now.UID == s.UID && now.RV == s.RV {
			return now.Obj, nil
		}
	}
	return c.read.Object(key, s)
}
