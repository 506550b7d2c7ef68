package store

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// usedWithin is the precision of Info.LastUsed.
const usedWithin = 24 * time.Hour

// usage holds the collections that have been opened and whose last use in the file is older than usedWithin. The next
// commit, or Close, writes them: a write for each of hundreds of collections that are opened together would take a slow
// disk seconds.
type usage struct {
	file *boltfile.File

	mu sync.Mutex
	at map[string]boltfile.Times // time of use, on both clocks, by name of the collection; guarded by mu
}

func (u *usage) add(at map[string]boltfile.Times) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at == nil {
		u.at = map[string]boltfile.Times{}
	}
	maps.Copy(u.at, at)
}

func (u *usage) take() map[string]boltfile.Times {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.at
	u.at = nil
	return at
}

// note adds the collection, unless its last use in the file is within usedWithin.
func (u *usage) note(ctx context.Context, name string) error {
	now := u.file.Times()
	return u.file.View(ctx, func(tx *bolt.Tx) error {
		_, st, err := findState(tx, name)
		if err == nil && (now.Wall.Sub(st.LastUsed).Abs() >= usedWithin || now.Steady.Sub(st.usedAt) >= usedWithin) {
			// the clock may have been set back
			u.add(map[string]boltfile.Times{name: now})
		}
		return err
	})
}

// write writes the notes and the current times of both clocks. It writes nothing if there are no notes.
func (u *usage) write(tx *bolt.Tx, notes map[string]boltfile.Times) error {
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
	return u.file.PutTimes(tx)
}

// flush writes the notes at once.
func (u *usage) flush(ctx context.Context) error {
	notes := u.take()
	if len(notes) == 0 {
		return nil
	}
	err := u.file.Update(ctx, boltfile.Upkeep, func(tx *bolt.Tx) error { return u.write(tx, notes) })
	if err != nil {
		u.add(notes)
	}
	return err
}

// isUnused reports whether the collection was last used longer ago than keep; never if keep is 0. usedAt is precise to
// usedWithin.
func (u *usage) isUnused(st state, keep time.Duration) bool {
	unused := u.file.Steady().Sub(st.usedAt)
	return keep > 0 && unused > usedWithin && unused-usedWithin > keep // keep+usedWithin might overflow
}
