package store

import (
	"context"
	"errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/write"
)

// startBuild starts a goroutine that builds the indexes that are not ready, unless one is running.
func (c *Collection) startBuild() {
	if c.readOnly || !c.builder.Want(c.in.Set.Load().Unready()) {
		return
	}
	c.workers.Start("build indexes of "+c.id.String(), func(ctx context.Context) {
		c.builder.Run(ctx, indexedRecords{c}, c.store.logger().WithValues("collection", c.id.String()))
	})
}

// indexedRecords are the records of a collection for its index.Builder.
type indexedRecords struct{ c *Collection }

var _ index.Records = indexedRecords{}

// Set returns the index functions as they are now.
func (r indexedRecords) Set() *index.Set { return r.c.in.Set.Load() }

// Final reports whether only a rebuild of the file, or another process, may do better.
func (r indexedRecords) Final(err error) bool {
	return errors.Is(err, entry.ErrDamaged) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrNoCollection) ||
		errors.Is(err, ErrClosed)
}

// Page reads the records that follow the key after.
func (r indexedRecords) Page(ctx context.Context, after string) (page []index.Record, more bool, err error) {
	return r.c.read.IndexPage(ctx, after)
}

// Update writes the records with their renewed terms.
func (r indexedRecords) Update(ctx context.Context, names []string, records []index.Record) error {
	if err := r.c.lockWrites(ctx); err != nil {
		return err
	}
	defer r.c.mu.Unlock()
	return r.c.writeLocked(ctx, func(w *write.Writer) error {
		for _, record := range records {
			if err := w.Reindex(record, names); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetReady marks the indexes ready, in the file and then for readers.
func (r indexedRecords) SetReady(ctx context.Context, names []string) error {
	if err := r.c.lockWrites(ctx); err != nil {
		return err
	}
	defer r.c.mu.Unlock()
	err := r.c.writeLocked(ctx, func(w *write.Writer) error {
		w.Indexes.Ready(names)
		return nil
	})
	if err == nil {
		r.c.putSet(r.c.in.Set.Load().WithReady(names...))
	}
	return err
}
