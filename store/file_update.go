package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// hooks are what tests put in bbolt's way, which takes no file layer of ours.
type hooks struct {
	// commit is called in place of tx.Commit if set.
	commit func(tx *bolt.Tx) error
}

// view runs fn in one read transaction, which is closed when it returns.
// What fn gets from tx dies with it. fn must not call view or update.
func (s *Store) view(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h, err := s.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	return s.settle(h, h.view(fn))
}

// update runs fn in one write transaction and commits it. On an error nothing
// was stored, unless the error wraps ErrOutcomeUnknown. fn runs once; who
// wants to try again calls update again.
func (s *Store) update(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	if s.readOnly() {
		return fmt.Errorf("%s: %w", s.path, ErrReadOnly)
	}
	select {
	case s.writer <- struct{}{}:
		defer func() { <-s.writer }()
	case <-ctx.Done():
		return ctx.Err()
	}
	h, err := s.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	if err := s.Err(); err != nil {
		return err
	}
	commit := s.hooks.commit
	if commit == nil {
		commit = (*bolt.Tx).Commit
	}
	return s.settle(h, h.update(fn, commit))
}

// settle turns an error of a transaction into what the caller is told.
func (s *Store) settle(h *handle, err error) error {
	var failed *commitError
	if errors.As(err, &failed) {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	return err
}
