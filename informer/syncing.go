package informer

import (
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
)

// syncing is whether the informer has synced, and whether the store has what the reflector has delivered. The process
// loop owns it, and others read it.
//
// The reflector says where everything that the server had when it was contacted has been delivered: it pushes a mark
// (fifo.Drained). The loop comes to the mark when all that precedes it is in the store. The informer has synced when it
// has come to one and no object is missing; with Options.SyncPolicy Disk before, when it serves what is stored.
type syncing struct {
	name string
	once sync.Once
	done chan struct{} // closed when the informer has synced
	// pushed counts the marks; applied is the number of the last one that the loop has come to with nothing missing.
	pushed, applied atomic.Int64
	// lacking is set while objects that the server has may be missing.
	lacking atomic.Bool

	// The loop's alone: marks counts those that it has come to; owed is set if it came to one while objects were missing,
	// which counts once they are back.
	marks int64
	owed  bool
}

var _ cache.DoneChecker = &syncing{}

func newSyncing(of any) *syncing {
	return &syncing{name: fmt.Sprintf("SharedIndexInformer %T", of), done: make(chan struct{})}
}

// Name and Done make it a cache.DoneChecker.
func (s *syncing) Name() string          { return s.name }
func (s *syncing) Done() <-chan struct{} { return s.done }

// complete notes that the informer has synced.
func (s *syncing) complete() { s.once.Do(func() { close(s.done) }) }

// level reports whether the loop has come to the last mark, with nothing missing.
func (s *syncing) level() bool { return s.pushed.Load() == s.applied.Load() }

// processed notes that a batch has been processed: whether it was a mark, and whether it was dropped because what
// precedes it in the stream was lost.
func (s *syncing) processed(mark, dropped bool) {
	if mark {
		s.marks++
	}
	switch {
	case dropped:
		s.owed = false
	case s.lacking.Load():
		s.owed = s.owed || mark
	case mark || s.owed:
		s.owed = false
		s.applied.Store(s.marks)
		s.complete()
	}
}

// listBegun notes that a list has begun, which brings a mark of its own.
func (s *syncing) listBegun() { s.owed = false }
