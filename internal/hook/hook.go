// Package hook lets tests intercept a store's commits and clock. Only tests use it.
package hook

import (
	"sync"
	"time"
)

// Hooks replace parts of a store. The zero value changes nothing.
type Hooks struct {
	// Commit replaces the commit of each transaction of the store. It must call commit once to commit. If it returns an
	// error without a call of commit, the transaction stores nothing.
	Commit func(commit func() error) error
	// Wall replaces the wall clock. The store reads this clock when it is opened, and to record when a collection was
	// last used.
	Wall func() time.Time
	// DirtyLimit replaces the maximum number of uncommitted bytes in the store's memory, if it is not 0.
	DirtyLimit int
	// IdentityInterval replaces the interval at which an idle store verifies that its path still names its file, if it
	// is not 0. It is for tests in which months of fake time pass.
	IdentityInterval time.Duration
}

// Gate is a Commit hook that delays or fails commits for a test. The zero value changes nothing. Set Hooks.Commit to
// its Commit.
type Gate struct {
	mu       sync.Mutex
	attempts int           // the number of commits so far; guarded by mu
	held     chan struct{} // pending commits wait until it is closed; guarded by mu
	entered  chan struct{} // closed when a commit begins to wait; guarded by mu
	fail     func() error  // returns the error with which a commit fails before it writes; guarded by mu
	after    func() error  // called after a successful commit, whose error it replaces; guarded by mu
}

// Commit implements Hooks.Commit: it commits, unless Hold or Fail prevents it.
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

// Hold makes the next commits wait until release is called. The channel entered is closed when a commit waits.
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

// Fail makes commits return the error of fail before they write anything. If fail returns nil, the commit continues.
func (g *Gate) Fail(fail func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = fail
}

// After makes commits return the error of fn although they have succeeded.
func (g *Gate) After(fn func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.after = fn
}

// Attempts returns the number of commits so far.
func (g *Gate) Attempts() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.attempts
}
