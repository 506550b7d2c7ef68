package usage

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

// Usage holds the collections that have been opened and whose last use in the file may be older than
// usedWithin. The next commit, or Close, notes their use: a write for each of hundreds of collections that are opened
// together would take a slow disk seconds.
type Usage struct {
	file *boltfile.File

	mu sync.Mutex
	at map[string]boltfile.Times // time of use, on both clocks, by name of the collection; guarded by mu
}

// New returns one that holds no collection.
func New(file *boltfile.File) *Usage { return &Usage{file: file, at: map[string]boltfile.Times{}} }

// Add adds collections, with the time of their use.
func (u *Usage) Add(at map[string]boltfile.Times) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.Copy(u.at, at)
}

// Now adds a collection that is used now.
func (u *Usage) Now(name string) { u.Add(map[string]boltfile.Times{name: u.file.Times()}) }

// Take returns what Usage holds, and empties it.
func (u *Usage) Take() map[string]boltfile.Times {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.at
	u.at = map[string]boltfile.Times{}
	return at
}

// Write notes the use of the collections, and the current times of both clocks. It writes nothing if the file says so
// already.
func (u *Usage) Write(tx *bolt.Tx, used map[string]boltfile.Times) error {
	noted := false
	for name, at := range used {
		b, st, err := state.Find(tx, name)
		switch {
		case errors.Is(err, state.ErrNone): // it was dropped meanwhile
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

// Flush is write at once, in a transaction of its own.
func (u *Usage) Flush(ctx context.Context) error {
	used := u.Take()
	if len(used) == 0 {
		return nil
	}
	err := u.file.Update(ctx, boltfile.Upkeep, func(tx *bolt.Tx) error { return u.Write(tx, used) })
	if err != nil {
		u.Add(used)
	}
	return err
}

// IsUnused reports whether the collection was last used longer ago than keep; never if keep is 0. usedAt is precise to
// usedWithin.
func (u *Usage) IsUnused(st state.State, keep time.Duration) bool {
	unused := u.file.Steady().Sub(st.UsedAt)
	return keep > 0 && unused > usedWithin && unused-usedWithin > keep // keep+usedWithin might overflow
}
