package store

import (
	"context"
	"errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/read"
)

// startBuild starts a goroutine that builds the indexes that are not ready, unless one is running.
func (c *Collection) startBuild() {
	if c.readOnly || !c.builder.Want(c.in.Set.Load().Unready()) {
		return
	}
	c.workers.start(c.store, "build indexes of "+c.id.String(), func(ctx context.Context) {
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

// Update writes the records with their renewed terms. They keep their seq, since the objects have not changed.
func (r indexedRecords) Update(ctx context.Context, names []string, records []index.Record) error {
	if err := r.c.lockWrites(ctx); err != nil {
		return err
	}
	defer r.c.mu.Unlock()
	return r.c.writeLocked(ctx, func(w *writer) error {
		for _, record := range records {
			old, err := w.get(record.Key)
			if err != nil {
				return err
			}
			if !old.Found || old.Seq != record.Seq {
				continue
			}
			if err := w.reindex(record, old, names); err != nil {
				return err
			}
		}
		return nil
	})
}

// reindex gives a record its renewed terms in the named indexes, and seals it anew if the collection is sealed.
func (w *writer) reindex(record index.Record, old read.Stored, names []string) error {
	terms, err := w.c.read.Coder.Terms(record.Key, old.Header)
	if err != nil {
		return err
	}
	h := old.Header
	h.Terms = w.c.read.Coder.Store(index.Replace(terms, names, record.Renewed))
	payload, err := w.c.read.Coder.Payload(format.BucketObjects, record.Key, old.Header, old.Payload)
	if err != nil {
		return err
	}
	// The payload is copied before the record that it is part of is replaced.
	if err := w.putRecord(record.Key, h, payload); err != nil {
		return err
	}
	return w.indexes.Move(record.Key, old.Terms, h.Terms)
}

// SetReady marks the indexes ready, in the file and then for readers.
func (r indexedRecords) SetReady(ctx context.Context, names []string) error {
	if err := r.c.lockWrites(ctx); err != nil {
		return err
	}
	defer r.c.mu.Unlock()
	err := r.c.writeLocked(ctx, func(w *writer) error {
		w.indexes.Ready(names)
		return nil
	})
	if err == nil {
		r.c.putSet(r.c.in.Set.Load().WithReady(names...))
	}
	return err
}
