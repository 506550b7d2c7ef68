package store

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
)

const (
	defaultForgetAfter = 30 * 24 * time.Hour
	// The program has this long to open the collections that it still wants: it
	// may itself have been away for longer than they are kept.
	forgetFirst = time.Hour
	forgetEvery = 24 * time.Hour
	// usedWithin is how exact Info.LastUsed is.
	usedWithin = 24 * time.Hour
)

// forgetAfter returns ForgetAfter with its default, and 0 for "never".
func (o Options) forgetAfter() time.Duration {
	if o.ForgetAfter == 0 {
		return defaultForgetAfter
	}
	return max(o.ForgetAfter, 0)
}

// forgetLater drops the collections that nobody uses, after d and from then on daily.
func (s *Store) forgetLater(d time.Duration) {
	s.goBackgroundAfter(d, "forget unused collections", func(ctx context.Context) {
		switch err := s.forget(ctx); {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, ErrNoSpace), errors.Is(err, ErrOutcomeUnknown), errors.Is(err, entry.ErrDamaged):
			// Who writes objects meets it too, and reports it.
		default:
			s.logger().Error(err, "Collections that nobody uses could not be dropped")
		}
		s.forgetLater(forgetEvery)
	})
}

// forget notes which collections are in use, and drops those that were last
// used longer ago than Options.ForgetAfter, one after the other.
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
		case s.open.holds(name), st.usedAt.IsZero(): // zero: a build that did not note it
			err = s.noteUsed(ctx, name)
		case s.isUnused(st):
			err = s.forgetOne(ctx, st.Info)
		}
		if err != nil && !errors.Is(err, ErrNoCollection) { // it was dropped this moment
			return err
		}
	}
	return s.flushUsed(ctx)
}

// isUnused reports whether nobody has used the collection for so long that it is dropped. When it was used is exact to
// a day.
func (s *Store) isUnused(st state) bool {
	keep, unused := s.o.forgetAfter(), s.steadyNow().Sub(st.usedAt)
	return keep > 0 && unused > usedWithin && unused-usedWithin > keep // a sum might be more than there is
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

// usedNotes are the collections that have been opened and whose Info does not say so for today: by name, when, by both
// clocks. They are written with the next commit of what is pending, or by Close: a write for each of hundreds that are
// opened together would take a slow disk seconds. The zero value is ready.
type usedNotes struct {
	mu sync.Mutex
	at map[string]times // guarded by mu
}

func (u *usedNotes) add(at map[string]times) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at == nil {
		u.at = map[string]times{}
	}
	maps.Copy(u.at, at)
}

func (u *usedNotes) take() map[string]times {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.at
	u.at = nil
	return at
}

// noteUsed notes that the collection is in use, unless the file says so for today.
func (s *Store) noteUsed(ctx context.Context, name string) error {
	now := s.clocks()
	return s.view(ctx, func(tx *bolt.Tx) error {
		_, st, err := findState(tx, name)
		if err == nil && (now.wall.Sub(st.LastUsed).Abs() >= usedWithin || now.steady.Sub(st.usedAt) >= usedWithin) {
			// the clock may have been set back
			s.usedNotes.add(map[string]times{name: now})
		}
		return err
	})
}

// writeUsed writes the notes, and what the clocks show.
func (s *Store) writeUsed(tx *bolt.Tx, notes map[string]times) error {
	for name, at := range notes {
		err := updateState(tx, name, func(_ *bolt.Bucket, st *state) error {
			st.LastUsed, st.usedAt = at.wall, at.steady
			return nil
		})
		if err != nil && !errors.Is(err, ErrNoCollection) { // it may have been dropped
			return err
		}
	}
	if len(notes) == 0 {
		return nil
	}
	return s.putTimes(tx)
}

// flushUsed writes the notes at once.
func (s *Store) flushUsed(ctx context.Context) error {
	notes := s.usedNotes.take()
	if len(notes) == 0 {
		return nil
	}
	err := s.update(ctx, func(tx *bolt.Tx) error { return s.writeUsed(tx, notes) })
	if err != nil {
		s.usedNotes.add(notes)
	}
	return err
}
