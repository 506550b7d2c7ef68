package claims

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// ErrHeld is store.ErrCollectionOpen.
var ErrHeld = errors.New("the collection is open")

// HeldError is store.CollectionOpenError. It wraps ErrHeld.
type HeldError struct {
	// Holder is the holder that was passed to Await by the claim's owner.
	Holder any
}

func (*HeldError) Error() string { return ErrHeld.Error() }
func (*HeldError) Unwrap() error { return ErrHeld }

// Set holds the claims of the names that are in use. The zero value is empty.
type Set struct {
	mu    sync.Mutex
	names map[string]*Claim // guarded by mu
}

// Claim is the right to a name in a Set.
type Claim struct {
	free    chan struct{} // closed when the claim is released
	stuck   chan struct{} // closed by GiveUp
	closing func() bool   // reports whether the holder is about to release the claim
	holder  any           // HeldError.Holder for refused claims
}

// Try claims a name for a moment, for which whoever awaits the name waits. It returns false if the name is claimed.
func (o *Set) Try(name string) bool {
	_, held := o.take(name, func() bool { return true }, nil)
	return held == nil
}

// take claims a name and returns the claim as mine. If the name is claimed already it returns that claim as held.
func (o *Set) take(name string, closing func() bool, holder any) (mine, held *Claim) {
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

// Await claims a name. closing reports whether the holder is about to release it; nil says that it never is. If the
// name is claimed and its holder is about to release it, Await waits for that. Otherwise it fails with a HeldError that
// has the owner's holder. It fails with ErrHeld if ctx ends first or the holder is stuck.
func (o *Set) Await(ctx context.Context, name string, closing func() bool, holder any) (*Claim, error) {
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

// GiveUp says that the holder has given up waiting for the disk: it releases the claim some time later.
func (c *Claim) GiveUp() { close(c.stuck) }

func (c *Claim) isStuck() bool {
	select {
	case <-c.stuck:
		return true
	default:
		return false
	}
}

// Release gives a claimed name back.
func (o *Set) Release(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.names[name].free)
	delete(o.names, name)
}
