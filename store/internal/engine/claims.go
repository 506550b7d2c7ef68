package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// ErrHeld means that a name is claimed already. Package store exports it as ErrCollectionOpen.
var ErrHeld = errors.New("the collection is open")

// HeldError is the error for a claimed name, with the holder of the claim. It wraps ErrHeld. Package store exports it
// as CollectionOpenError.
type HeldError struct {
	// Holder is the claim owner's argument holder of Await.
	Holder any
}

func (*HeldError) Error() string { return ErrHeld.Error() }
func (*HeldError) Unwrap() error { return ErrHeld }

// Claims holds claims by name. The zero value is empty.
type Claims struct {
	mu    sync.Mutex
	names map[string]*Claim // mu guards names.
}

// Claim is the right to a name in a Claims.
type Claim struct {
	free    chan struct{} // Release closes free.
	stuck   chan struct{} // GiveUp closes stuck, when the holder has stopped waiting for the disk.
	closing func() bool   // closing reports whether the holder is about to release the claim.
	holder  any           // Other callers get holder in a HeldError.
}

// Try claims a name for a short time: Await for the name waits instead of failing. It returns false for a claimed name.
func (o *Claims) Try(name string) bool {
	_, held := o.take(name, func() bool { return true }, nil)
	return held == nil
}

// take claims a name and returns the claim as mine, or the existing claim of the name as held.
func (o *Claims) take(name string, closing func() bool, holder any) (mine, held *Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if held := o.names[name]; held != nil {
		return nil, held
	}
	if o.names == nil {
		o.names = map[string]*Claim{}
	}
	mine = &Claim{free: make(chan struct{}), stuck: make(chan struct{}), closing: closing, holder: holder}
	o.names[name] = mine
	return mine, nil
}

// Await claims a name. closing reports whether the new holder is about to release the name; nil means never. If the
// current holder is about to release the name, Await waits for the release. Otherwise it fails with a HeldError with
// the current holder. It fails with ErrHeld if ctx ends first or the current holder is stuck.
func (o *Claims) Await(ctx context.Context, name string, closing func() bool, holder any) (*Claim, error) {
	if closing == nil {
		closing = func() bool { return false }
	}
	for {
		mine, held := o.take(name, closing, holder)
		if held == nil {
			return mine, nil
		}
		if !held.isStuck() && !held.closing() {
			return nil, &HeldError{Holder: held.holder}
		}
		select {
		case <-held.free:
		case <-held.stuck:
			return nil, fmt.Errorf("%w: it is being closed, which has begun to take too long: %w", ErrHeld,
				boltfile.ErrStillWriting)
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: whoever has it is about to close it, and has not yet: %w", ErrHeld, ctx.Err())
		}
	}
}

// GiveUp marks the holder as no longer waiting for the disk. The holder still releases the claim some time later.
func (c *Claim) GiveUp() { close(c.stuck) }

func (c *Claim) isStuck() bool {
	select {
	case <-c.stuck:
		return true
	default:
		return false
	}
}

// Release releases a claimed name and wakes its waiters.
func (o *Claims) Release(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.names[name].free)
	delete(o.names, name)
}
