package store

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
)

const (
	defaultForgetAfter = 30 * 24 * time.Hour
	// forgetFirst is how long after Open the first unused collections are dropped: the program may not have run for longer
	// than they are kept, and needs time to open those that it still wants.
	forgetFirst = time.Hour
	forgetEvery = 24 * time.Hour
	// usedWithin is the precision of Info.LastUsed.
	usedWithin = 24 * time.Hour
)

// forgetAfter returns ForgetAfter or its default; 0 means never.
func (o Options) forgetAfter() time.Duration {
	if o.ForgetAfter == 0 {
		return defaultForgetAfter
	}
	return max(o.ForgetAfter, 0)
}

// forgetLater drops the unused collections after d and from then on daily.
func (s *Store) forgetLater(d time.Duration) {
	s.file.GoAfter(d, "forget unused collections", func(ctx context.Context) {
		switch err := s.forget(ctx); {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, ErrNoSpace), errors.Is(err, ErrOutcomeUnknown), errors.Is(err, entry.ErrDamaged):
			// Commits of objects fail with the same error, and report it.
		default:
			s.logger().Error(err, "Collections that nobody uses could not be dropped")
		}
		s.forgetLater(forgetEvery)
	})
}

// forget records which collections are in use, and drops those that were last used longer ago than Options.ForgetAfter,
// one after the other.
func (s *Store) forget(ctx context.Context) error {
	if err := s.flushUsed(ctx); err != nil {
		return err
	}
	states, err := s.states(ctx)
	if err != nil {
		return err
	}
	for _, st := range states {
		name := st.Identity.ID()
		switch {
		case s.open.holds(name), st.usedAt.IsZero(): // zero if an old build that did not record it wrote the state
			err = s.noteUsed(ctx, name)
		case s.isUnused(st):
			err = s.forgetOne(ctx, st.Info)
		}
		if err != nil && !errors.Is(err, ErrNoCollection) { // ErrNoCollection: it was dropped meanwhile
			return err
		}
	}
	return s.flushUsed(ctx)
}

// isUnused reports whether the collection was last used longer ago than it is kept. usedAt is precise to usedWithin.
func (s *Store) isUnused(st state) bool {
	keep, unused := s.o.forgetAfter(), s.file.Steady().Sub(st.usedAt)
	return keep > 0 && unused > usedWithin && unused-usedWithin > keep // keep+usedWithin might overflow
}

var errUsed = errors.New("the collection has been used meanwhile")

// forgetOne drops a collection, unless it has been used since info was read.
func (s *Store) forgetOne(ctx context.Context, info Info) error {
	err := s.drop(ctx, info.Identity.ID(), func(st state) error {
		if !s.isUnused(st) {
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

// usedNotes holds the collections that have been opened and whose last use in the file is older than usedWithin. The
// next commit, or Close, writes them: a write for each of hundreds of collections that are opened together would take a
// slow disk seconds. The zero value is ready to use.
type usedNotes struct {
	mu sync.Mutex
	at map[string]boltfile.Times // time of use, on both clocks, by name of the collection; guarded by mu
}

func (u *usedNotes) add(at map[string]boltfile.Times) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at == nil {
		u.at = map[string]boltfile.Times{}
	}
	maps.Copy(u.at, at)
}

func (u *usedNotes) take() map[string]boltfile.Times {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.at
	u.at = nil
	return at
}

// noteUsed adds the collection to usedNotes, unless its last use in the file is within usedWithin.
func (s *Store) noteUsed(ctx context.Context, name string) error {
	now := s.file.Times()
	return s.file.View(ctx, func(tx *bolt.Tx) error {
		_, st, err := findState(tx, name)
		if err == nil && (now.Wall.Sub(st.LastUsed).Abs() >= usedWithin || now.Steady.Sub(st.usedAt) >= usedWithin) {
			// the clock may have been set back
			s.usedNotes.add(map[string]boltfile.Times{name: now})
		}
		return err
	})
}

// writeUsed writes the notes and the current times of both clocks. It writes nothing if there are no notes.
func (s *Store) writeUsed(tx *bolt.Tx, notes map[string]boltfile.Times) error {
	for name, at := range notes {
		err := updateState(tx, name, func(_ *bolt.Bucket, st *state) error {
			st.LastUsed, st.usedAt = at.Wall, at.Steady
			return nil
		})
		if err != nil && !errors.Is(err, ErrNoCollection) { // ErrNoCollection: it was dropped meanwhile
			return err
		}
	}
	if len(notes) == 0 {
		return nil
	}
	return s.file.PutTimes(tx)
}

// flushUsed writes the notes at once.
func (s *Store) flushUsed(ctx context.Context) error {
	notes := s.usedNotes.take()
	if len(notes) == 0 {
		return nil
	}
	err := s.file.Update(ctx, boltfile.Upkeep, func(tx *bolt.Tx) error { return s.writeUsed(tx, notes) })
	if err != nil {
		s.usedNotes.add(notes)
	}
	return err
}
