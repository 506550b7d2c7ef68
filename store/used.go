package store

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/state"
)

// usedWithin is the precision of Info.LastUsed.
const usedWithin = 24 * time.Hour

// usage holds the collections that have been opened and whose last use in the file may be older than
// usedWithin. The next commit, or Close, notes their use: a write for each of hundreds of collections that are opened
// together would take a slow disk seconds.
type usage struct {
	file *boltfile.File

	mu sync.Mutex
	at map[string]boltfile.Times // time of use, on both clocks, by name of the collection; guarded by mu
}

func newUsage(file *boltfile.File) usage { return usage{file: file, at: map[string]boltfile.Times{}} }

// add adds collections, with the time of their use.
func (u *usage) add(at map[string]boltfile.Times) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.Copy(u.at, at)
}

// now adds a collection that is used now.
func (u *usage) now(name string) { u.add(map[string]boltfile.Times{name: u.file.Times()}) }

func (u *usage) take() map[string]boltfile.Times {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.at
	u.at = map[string]boltfile.Times{}
	return at
}

// write notes the use of the collections, and the current times of both clocks. It writes nothing if the file says so
// already.
func (u *usage) write(tx *bolt.Tx, used map[string]boltfile.Times) error {
	noted := false
	for name, at := range used {
		b, st, err := state.Find(tx, name)
		switch {
		case errors.Is(err, ErrNoCollection): // it was dropped meanwhile
			continue
		case err != nil:
			return err
		case at.Wall.Sub(st.LastUsed).Abs() < usedWithin && at.Steady.Sub(st.UsedAt) < usedWithin:
			continue // Abs: the clock may have been set back
		}
		st.LastUsed, st.UsedAt, noted = at.Wall, at.Steady, true
		if err := state.Put(b, name, st); err != nil {
			return err
		}
	}
	if !noted {
		return nil
	}
	return u.file.PutTimes(tx)
}

// flush is write at once, in a transaction of its own.
func (u *usage) flush(ctx context.Context) error {
	used := u.take()
	if len(used) == 0 {
		return nil
	}
	err := u.file.Update(ctx, boltfile.Upkeep, func(tx *bolt.Tx) error { return u.write(tx, used) })
	if err != nil {
		u.add(used)
	}
	return err
}

// isUnused reports whether the collection was last used longer ago than keep; never if keep is 0. usedAt is precise to
// usedWithin.
func (u *usage) isUnused(st state.State, keep time.Duration) bool {
	unused := u.file.Steady().Sub(st.UsedAt)
	return keep > 0 && unused > usedWithin && unused-usedWithin > keep // keep+usedWithin might overflow
}
