package store

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

type liveSet struct {
	mu       sync.Mutex // mu guards the other fields
	all      map[*Collection]struct{}
	opening  chan struct{}  // opening is closed when the next collection is opened
	rebuilds int            // rebuilds is the number of rebuilds of the file
	losses   map[string]int // losses counts the rebuilds that lost objects, by collection name
}

func newLiveSet() liveSet {
	return liveSet{all: map[*Collection]struct{}{}, opening: make(chan struct{}), losses: map[string]int{}}
}

func (l *liveSet) list() []*Collection {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.all))
}

func (l *liveSet) keepAll() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.all {
		if c.residency != All {
			return false
		}
	}
	return len(l.all) > 0
}

func (l *liveSet) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// add adds c to the open collections. It returns false if the number of rebuilds is no longer before.
func (l *liveSet) add(c *Collection, before int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rebuilds != before {
		return false
	}
	l.all[c] = struct{}{}
	close(l.opening)
	l.opening = make(chan struct{})
	return true
}

func (l *liveSet) remove(c *Collection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, c)
}

// rebuilt counts a rebuild. lost has the names of the collections that lost objects, with the reasons.
func (l *liveSet) rebuilt(lost map[string]error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rebuilds++
	for name := range lost {
		l.losses[name]++
	}
	for c := range l.all {
		if _, lacks := lost[c.read.Name]; lacks && c.in.History != nil {
			c.in.History.Disturb()
		}
	}
}

func (l *liveSet) rebuildCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rebuilds
}

// failure returns the failure of the file and the number of rebuilds at the same moment.
func (l *liveSet) failure(f *boltfile.File) (rebuilds int, failure error) {
	for {
		rebuilds, failure = l.rebuildCount(), f.Err()
		if l.rebuildCount() == rebuilds { // a rebuild in between would have changed the count
			return rebuilds, failure
		}
	}
}

// enlist adds c to s.live. It waits for an exchange of the file, but for no other write, since a disk may hang in one.
func (s *Store) enlist(ctx context.Context, c *Collection, before int) (bool, error) {
	resume, err := s.file.PauseExchanges(ctx)
	if err != nil {
		return false, err
	}
	defer resume()
	return s.live.add(c, before), nil
}

// Losses returns how many times Rebuild has lost objects of the collection, or of its open Replacement, since Open.
// When the number grows, the writer of the collection must list anew.
func (c *Collection) Losses() int {
	l := &c.store.live
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.losses[c.read.Name]
}
