package store

import (
	"context"
	"errors"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/state"
)

const (
	defaultForgetAfter = 30 * 24 * time.Hour
	// forgetFirst is how long after Open the first unused collections are dropped: the program may not have run for longer
	// than they are kept, and needs time to open those that it still wants.
	forgetFirst = time.Hour
	forgetEvery = 24 * time.Hour
)

// forgetAfter returns ForgetAfter or its default; 0 means never.
func (o Options) forgetAfter() time.Duration {
	if o.ForgetAfter == 0 {
		return defaultForgetAfter
	}
	return max(o.ForgetAfter, 0)
}

// forgetLoop drops the unused collections after forgetFirst and from then on daily.
func (s *Store) forgetLoop(ctx context.Context) {
	for wait := forgetFirst; ; wait = forgetEvery {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		switch err := s.forget(ctx); {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, ErrNoSpace), errors.Is(err, ErrOutcomeUnknown), errors.Is(err, entry.ErrDamaged):
			// Commits of objects fail with the same error, and report it.
		default:
			s.logger().Error(err, "Collections that nobody uses could not be dropped")
		}
	}
}

// forget records which collections are in use, and drops those that were last used longer ago than Options.ForgetAfter,
// one after the other.
func (s *Store) forget(ctx context.Context) error {
	if err := s.used.Flush(ctx); err != nil {
		return err
	}
	states, err := s.states(ctx)
	if err != nil {
		return err
	}
	for _, st := range states {
		name := st.Identity.ID()
		switch {
		case s.open.Holds(name), st.UsedAt.IsZero(): // zero if an old build that did not record it wrote the state
			s.used.Now(name)
		case s.used.IsUnused(st, s.o.forgetAfter()):
			err = s.forgetOne(ctx, st.Info)
		}
		if err != nil && !errors.Is(err, ErrNoCollection) { // ErrNoCollection: it was dropped meanwhile
			return err
		}
	}
	return s.used.Flush(ctx)
}

var errUsed = errors.New("the collection has been used meanwhile")

// forgetOne drops a collection, unless it has been used since info was read.
func (s *Store) forgetOne(ctx context.Context, info entry.Info) error {
	err := s.drop(ctx, info.Identity.ID(), func(st state.State) error {
		if !s.used.IsUnused(st, s.o.forgetAfter()) {
			return errUsed
		}
		return nil
	})
	if errors.Is(err, ErrCollectionOpen) || errors.Is(err, errUsed) {
		return nil
	}
	if err == nil {
		s.logger().Info("A collection that nobody used was dropped",
			"collection", info.Identity.String(), "lastUsed", info.LastUsed, "objects", info.Objects)
	}
	return err
}
