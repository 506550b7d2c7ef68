package changelog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// Cursors holds the cursors of an open collection by name. Consumers move them, and the next commit writes them to the
// file. Its methods may be called concurrently.
type Cursors struct {
	mu      sync.Mutex // mu guards the other fields
	all     map[string]*cursor
	retain  time.Duration // retain is State.Retain
	changed chan struct{} // changed is closed by the next change; nil without a waiter
	closed  bool          // closed makes cursors refuse acknowledgements
	any     atomic.Bool   // any is the result of Any; it changes only with mu held
	// version grows with each change of a cursor. written is the version that the file has.
	version, written uint64
}

type cursor struct {
	now    consumer.Position
	open   bool // open is true while a consumer uses the cursor
	resets int  // resets is the number of resets in this process
}

// Snapshot is a copy of the cursors that one transaction writes.
type Snapshot struct {
	all     map[string]consumer.Position
	version uint64 // version is Cursors.version at the copy
	dirty   bool   // dirty is true if the file lacks the version
	// reset has the new positions of the cursors that the transaction resets.
	reset  map[string]consumer.Position
	retain time.Duration // retain is State.Retain
}

// Load sets the cursors, and how long tombstones are retained, to the values in the file.
func (c *Cursors) Load(all map[string]consumer.Position, retain time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.retain = map[string]*cursor{}, retain
	for name, now := range all {
		c.all[name] = &cursor{now: now}
	}
	c.updateAnyLocked()
}

// Any reports whether the changelog has a consumer: a cursor, or readers that keep their offsets themselves.
func (c *Cursors) Any() bool { return c.any.Load() }

func (c *Cursors) updateAnyLocked() { c.any.Store(len(c.all) > 0 || c.retain > 0) }

// Dirty reports whether the file lacks the current state of a cursor.
func (c *Cursors) Dirty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all) > 0 && c.version != c.written
}

// snapshot returns nil if the changelog has no consumer.
func (c *Cursors) snapshot() *Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 && c.retain == 0 {
		return nil
	}
	s := &Snapshot{
		all: map[string]consumer.Position{}, version: c.version, dirty: c.version != c.written,
		reset: map[string]consumer.Position{}, retain: c.retain,
	}
	for name, one := range c.all {
		s.all[name] = one.now
	}
	return s
}

// Written applies the outcome of the transaction that wrote s, which may be nil. It resets the cursors in s.reset even
// if the outcome is unknown, since tombstones that they need may have been dropped. It wakes the waiters of Changed.
// The caller has the writer lock: otherwise the next writer could write the cursors from before the reset.
func (c *Cursors) Written(s *Snapshot, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unknown := errors.Is(err, boltfile.ErrOutcomeUnknown)
	if err == nil || unknown && s != nil && len(s.reset) > 0 {
		c.wakeLocked()
	}
	if s == nil || err != nil && !unknown {
		return
	}
	if err == nil {
		c.written = max(c.written, s.version)
	}
	for name, anew := range s.reset {
		if one := c.all[name]; one != nil {
			c.resetLocked(one, anew)
		}
	}
}

// resetLocked makes a consumer start over, even if it has acknowledged changes since the Snapshot with the reset.
func (c *Cursors) resetLocked(one *cursor, anew consumer.Position) {
	one.now = anew
	one.resets++
	c.version++
}

func errClosed() error { return fmt.Errorf("the collection has been closed: %w", boltfile.ErrClosed) }

// Open opens the cursor of that name, and returns whether it exists. It fails with consumer.ErrOpen if it is open.
func (c *Cursors) Open(name string) (known bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.all[name]
	switch {
	case c.closed: // the collection may have been opened a second time, with Cursors of its own
		return false, errClosed()
	case one == nil:
		return false, nil
	case one.open:
		return true, consumer.ErrOpen
	}
	one.open = true
	return true, nil
}

// Add adds an open cursor, which is already in the file.
func (c *Cursors) Add(name string, now consumer.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]*cursor{}
	}
	c.all[name] = &cursor{now: now, open: true}
	c.updateAnyLocked()
}

// CloseOne closes one cursor, so that Open can open it. Close closes all.
func (c *Cursors) CloseOne(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.all[name]; one != nil {
		one.open = false
	}
}

// Remove removes a cursor that is no longer in the file.
func (c *Cursors) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, name)
	c.updateAnyLocked()
}

// Get returns the cursor, and the number of its resets in this process.
func (c *Cursors) Get(name string) (now consumer.Position, resets int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.all[name]
	if one == nil {
		return now, 0, consumer.ErrNone
	}
	return one.now, one.resets, nil
}

// Move sets a cursor. It fails with consumer.ErrReset if the cursor was reset since Get returned resets.
func (c *Cursors) Move(name string, resets int, to consumer.Position) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.all[name]
	switch {
	case c.closed:
		return errClosed()
	case one == nil:
		return consumer.ErrNone
	case one.resets != resets:
		return consumer.ErrReset
	}
	one.now = to
	c.version++
	return nil
}

// Retained returns how long tombstones are kept for readers. It fails with ErrClosed after Close.
func (c *Cursors) Retained() (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, errClosed()
	}
	return c.retain, nil
}

// SetRetained records that the file has State.Retain.
func (c *Cursors) SetRetained(retain time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retain = retain
	c.updateAnyLocked()
}

// Changed returns a channel that is closed by the next commit, by a reset, or by Close.
func (c *Cursors) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// Close makes Move fail. The last commit still writes the positions that were acknowledged before.
func (c *Cursors) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wakeLocked()
}

func (c *Cursors) wakeLocked() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// low returns the sequence number up to which the consumer of a cursor no longer needs the changelog.
func low(c consumer.Position) uint64 {
	low := c.Seq
	for _, seq := range c.Failing {
		low = min(low, seq-1)
	}
	return low
}

// Anew returns the cursor of a reset consumer: it receives every object, then the changes after now.
func (s *State) Anew(why consumer.ResetReason) consumer.Position {
	return consumer.Position{Seq: s.Last(), Replaying: true, Why: why}
}

// PutCursor stores a cursor in the bucket of cursors.
func PutCursor(cursors *bolt.Bucket, collection, name string, c consumer.Position) error {
	data, err := format.AppendCursor(nil, collection, name, c)
	if err != nil {
		return err
	}
	return cursors.Put([]byte(name), data)
}

// ReadCursors returns the cursors of a collection.
func ReadCursors(b *bolt.Bucket, collection string) (map[string]consumer.Position, error) {
	all := map[string]consumer.Position{}
	cursors := b.Bucket(format.BucketCursors)
	if cursors == nil {
		return all, nil
	}
	return all, cursors.ForEach(func(name, data []byte) (err error) {
		all[string(name)], err = format.ParseCursor(collection, string(name), data)
		return err
	})
}
