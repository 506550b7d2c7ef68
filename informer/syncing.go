package informer

import (
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
)

// syncing says whether the informer has synced, and whether the store has everything that the reflector has delivered.
// The process loop writes it, except for pushed; any goroutine may read it.
//
// When the reflector has delivered the server's state at the time of contact, the sink pushes a fifo.Drained delta. The
// process loop reaches that delta when all deltas before it are in the store. The informer has synced when the process
// loop has reached a Drained delta and no object is missing. With Options.SyncPolicy Disk it has synced as soon as it
// serves the stored objects. If this run makes the collection's first list, the informer does not sync before that list
// is committed.
type syncing struct {
	once   sync.Once
	done   chan struct{} // done is closed when the informer has synced
	notify func()        // notify is called when done is closed
	// pushed counts the fifo.Drained deltas that the sink has pushed. applied is the number of the last Drained delta that
	// the process loop reached with no object missing.
	pushed, applied atomic.Int64
	// missing is true while the store may lack objects that the server has.
	missing atomic.Bool

	// marks counts the fifo.Drained deltas that the process loop has reached. Only the process loop uses marks,
	// markDeferred, saving and due.
	marks int64
	// markDeferred is true if the process loop has reached a fifo.Drained delta while objects were missing. When these are
	// restored, that delta becomes applied.
	markDeferred bool
	// saving counts the first lists that are applied in memory and not committed yet. It exceeds 1 only if a repair of the
	// file has lost an earlier one.
	saving int
	// due is true if only the commit of first lists is missing: done must be closed once saving is 0.
	due bool
}

func newSyncing(notify func()) *syncing { return &syncing{done: make(chan struct{}), notify: notify} }

func (s *syncing) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// complete closes done: the informer has synced. If a first list is not committed yet, saved closes done later. Only
// the process loop calls complete.
func (s *syncing) complete() {
	if s.due = s.saving > 0; !s.due {
		s.once.Do(func() {
			close(s.done)
			s.notify()
		})
	}
}

// saved is called with the number of first lists that have been committed since the last call.
func (s *syncing) saved(lists int) {
	if s.saving -= lists; s.due {
		s.complete()
	}
}

// level reports whether the process loop has stored everything before the last fifo.Drained delta that was pushed, with
// no object missing.
func (s *syncing) level() bool { return s.pushed.Load() == s.applied.Load() }

// processed is called after each batch. mark is true if the batch was a fifo.Drained delta. dropped is true if the
// process loop has dropped the batch, because earlier deltas of the stream were lost.
func (s *syncing) processed(mark, dropped bool) {
	if mark {
		s.marks++
	}
	switch {
	case dropped:
		s.markDeferred = false
	case s.missing.Load():
		s.markDeferred = s.markDeferred || mark
	case mark || s.markDeferred:
		s.markDeferred = false
		s.applied.Store(s.marks)
		s.complete()
	}
}

// listBegun makes a fifo.Drained delta that was reached while objects were missing void: another follows the list.
func (s *syncing) listBegun() { s.markDeferred = false }

// synced is the HasSyncedChecker of an Informer. It is done once the Informer runs and its collection has synced.
type synced struct {
	name string
	once sync.Once
	done chan struct{}
}

var _ cache.DoneChecker = &synced{}

func newSynced(of any) *synced {
	return &synced{name: fmt.Sprintf("SharedIndexInformer %T", of), done: make(chan struct{})}
}

func (s *synced) Name() string          { return s.name }
func (s *synced) Done() <-chan struct{} { return s.done }

func (s *synced) complete() { s.once.Do(func() { close(s.done) }) }
