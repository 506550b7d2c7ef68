package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/engine"
)

// importBytes is the approximate size of a transaction.
const importBytes = 4 << 20

// maxTextLen is the maximum length in bytes of the UID, the resourceVersion and the encoding of an imported record.
const maxTextLen = 1 << 10

// Begin begins a collection. It fails if the store already has that collection, or if another collection has been begun
// and not ended.
func (i *Import) Begin(ctx context.Context, what ImportCollection) error {
	id, err := what.Identity.Canonical()
	switch {
	case i.done:
		err = errors.New("the import is over")
	case err != nil:
	case i.c != nil:
		err = fmt.Errorf("%s has not been ended", i.what.Identity)
	default:
		err = i.begin(ctx, id, what)
	}
	if err != nil {
		return fmt.Errorf("import %s: %w", what.Identity, err)
	}
	return nil
}

func (i *Import) begin(ctx context.Context, id entry.Identity, what ImportCollection) error {
	err := i.store.file.View(ctx, func(tx *bolt.Tx) error {
		if _, err := engine.CollectionBucket(tx, id.ID()); err == nil {
			return errors.New("the store already has it; a collection can be imported only once")
		}
		return nil
	})
	if err != nil {
		return err
	}
	c, err := i.store.Collection(ctx, id, CollectionOptions{
		Codec: rawCodec{what.Attributes.Codec}, Resource: what.Resource, Residency: None, Compression: i.compression,
		Seal: what.Seal,
	})
	if err != nil {
		return err
	}
	what.Identity = id
	i.c, i.what, i.last = c, what, ""
	i.list, err = c.in.Begin(ctx, engine.ReplaceOptions{Attributes: what.Attributes})
	return err
}

// Add adds a record to the collection. The caller may reuse r.Payload afterwards.
func (i *Import) Add(ctx context.Context, r entry.Entry) error {
	err := i.validate(r)
	if err == nil {
		r.Payload = bytes.Clone(r.Payload)
		i.last, i.page = r.Key, append(i.page, r)
		i.bytes += 128 + len(r.Key) + len(r.UID) + len(r.ResourceVersion) + len(r.Encoding) + len(r.Payload)
		if i.bytes >= importBytes {
			err = i.flush(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("import %s: %w", i.what.Identity, err)
	}
	return nil
}

func (i *Import) validate(r entry.Entry) error {
	switch {
	case i.done || i.c == nil:
		return errors.New("no collection has been begun")
	case len(r.Key) == 0 || len(r.Key) > entry.MaxKey:
		return fmt.Errorf("a key of %d bytes, %s: only 1 to %d bytes can be stored", len(r.Key), base.PrintableKey(r.Key),
			entry.MaxKey)
	case r.Key <= i.last:
		return fmt.Errorf("key %s was added after %s: records must be in key order, each once", base.PrintableKey(r.Key),
			base.PrintableKey(i.last))
	case max(len(r.UID), len(r.ResourceVersion), len(r.Encoding)) > maxTextLen:
		return fmt.Errorf("record %s has a UID, resourceVersion or encoding of more than the %d bytes that can be stored",
			base.PrintableKey(r.Key), maxTextLen)
	case r.Encoding == "":
		return fmt.Errorf("record %s has no encoding", base.PrintableKey(r.Key))
	}
	return nil
}

// End ends the collection with the given state, and returns the number of its records.
func (i *Import) End(ctx context.Context, as ImportState) (objects int, err error) {
	if i.done || i.c == nil {
		return 0, errors.New("import: no collection has been begun")
	}
	if err = as.validate(); err == nil {
		objects, err = i.end(ctx, as)
	}
	if err == nil {
		err = i.c.Close()
	}
	if err != nil {
		return 0, fmt.Errorf("import %s: %w", i.what.Identity, err)
	}
	i.c = nil
	return objects, nil
}

func (i *Import) end(ctx context.Context, as ImportState) (objects int, err error) {
	if err := i.flush(ctx); err != nil {
		return 0, err
	}
	i.list.As = func(info *entry.Info) { info.Complete, info.MustRelist = as.Complete, as.MustRelist }
	end := entry.Batch{ResourceVersion: as.ResourceVersion, LastContact: as.LastContact}
	if _, err := i.list.Commit(ctx, end); err != nil {
		return 0, err
	}
	if err := i.store.Flush(ctx); err != nil {
		return 0, err
	}
	info, err := i.c.read.Info(ctx)
	return info.Objects, err
}

func (i *Import) flush(ctx context.Context) error {
	if err := i.list.Entries(ctx, i.page); err != nil {
		return err
	}
	i.page, i.bytes = i.page[:0], 0
	return i.store.Flush(ctx)
}
