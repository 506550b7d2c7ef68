package store

import (
	"context"
	"fmt"

	"github.com/larder-dev/larder/entry"
)

// Records calls fn for each committed record of a collection whose key follows after, in the byte order of keys. The
// collection may be open or not. No transaction is open while fn runs. Each page of records is consistent, but all
// pages together only if there is no write meanwhile, as in a copy by CopyFile. The caller owns the records.
//
// Records returns the error of fn, or ErrNoCollection. The error of an unreadable record is an entry.RecordError. It
// wraps ErrIncompatible if a newer program wrote the record. The error of other damage wraps ErrDamaged.
func (s *Store) Records(ctx context.Context, id entry.Identity, after string, fn func(entry.Entry) error) error {
	id, err := id.Canonical()
	if err != nil {
		return err
	}
	r := s.reader(id.ID(), nil)
	var failed error // failed is the error of fn, which Records returns without a wrapper
	err = r.Entries(ctx, after, func(e entry.Entry) error {
		failed = fn(e)
		return failed
	})
	if err == nil || failed != nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("read %s: %w", id, err)
}

// Record returns the record with that key, and whether it exists. It fails as Records does.
func (s *Store) Record(ctx context.Context, id entry.Identity, key string) (e entry.Entry, found bool, err error) {
	if id, err = id.Canonical(); err != nil {
		return e, false, err
	}
	r := s.reader(id.ID(), nil)
	if e, found, err = r.Entry(ctx, key); err != nil {
		return e, false, fmt.Errorf("read %s: %w", id, err)
	}
	return e, found, nil
}
