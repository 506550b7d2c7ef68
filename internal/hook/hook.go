// Package hook is what tests put between a store and its disk. Nothing else uses it.
package hook

import (
	"sync"
	"time"
)

// Hooks are called in the place of what they are named for. The zero value changes nothing.
type Hooks struct {
	// Commit is called for each commit of a transaction. It makes it by calling commit, once; if it does not, and returns
	// an error, nothing is stored.
	Commit func(commit func() error) error
	// Wall tells the time that the system believes it is when a store is opened, and by which it says when a collection
	// was used.
	Wall func() time.Time
	// DirtyLimit is how many bytes may wait for a commit, in place of the store's own limit, if it is not 0.
	DirtyLimit int
	// IdentityInterval is how often the identity of an idle file is verified, in place of the store's own interval, if it
	// is not 0. Tests that let months pass set it.
	IdentityInterval time.Duration
}

// Gate is what a test does to commits. Its zero value lets them pass; Commit is for Hooks.
type Gate struct {
	mu       sync.Mutex
	attempts int           // guarded by mu
	held     chan struct{} // guarded by mu; commits wait until it is closed
	entered  chan struct{} // guarded by mu; closed when one waits
	fail     func() error  // guarded by mu; before the commit
	after    func() error  // guarded by mu; once it has succeeded
}

// Commit is Hooks.Commit.
func (g *Gate) Commit(commit func() error) error {
	g.mu.Lock()
	g.attempts++
	held, entered, fail, after := g.held, g.entered, g.fail, g.after
	if entered != nil {
		close(entered)
		g.entered = nil
	}
	g.mu.Unlock()
	if held != nil {
		<-held
	}
	if fail != nil {
		if err := fail(); err != nil {
			return err
		}
	}
	if err := commit(); err != nil || after == nil {
		return err
	}
	return after()
}

// Hold makes the next commits wait until release is called. entered is closed when one does.
func (g *Gate) Hold() (entered <-chan struct{}, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(chan struct{})
	g.held, g.entered = held, make(chan struct{})
	return g.entered, sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.held, g.entered = nil, nil
		close(held)
	})
}

// Fail makes commits return what fail does, if not nil.
func (g *Gate) Fail(fail func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = fail
}

// After makes commits that have succeeded return what fn does.
func (g *Gate) After(fn func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.after = fn
}

// Attempts returns how many commits there were.
func (g *Gate) Attempts() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.attempts
}
