// Package hook lets tests intercept a store's commits and clock. Only tests use it.
package hook

import (
	"sync"
	"time"
)

// Hooks replace parts of a store. The zero value changes nothing.
type Hooks struct {
	// Commit replaces the commit of each transaction. It must call commit once to commit. If it returns an error
	// without a call of commit, nothing is stored.
	Commit func(commit func() error) error
	// Wall replaces the wall clock. The store reads it when it is opened, and to record when a collection was used.
	Wall func() time.Time
	// DirtyLimit replaces the store's limit on uncommitted bytes, if it is not 0.
	DirtyLimit int
	// IdentityInterval replaces the store's interval between verifications of an idle file's identity, if it is not 0.
	// It is for tests in which months of fake time pass.
	IdentityInterval time.Duration
}

// Gate delays or fails commits for a test. The zero value changes nothing. Use its Commit as Hooks.Commit.
type Gate struct {
	mu       sync.Mutex
	attempts int           // guarded by mu
	held     chan struct{} // guarded by mu; commits wait until it is closed
	entered  chan struct{} // guarded by mu; closed when a commit waits
	fail     func() error  // guarded by mu; called before the commit
	after    func() error  // guarded by mu; called after a successful commit
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

// Hold makes the next commits wait until release is called. entered is closed when a commit waits.
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

// Fail makes commits fail with the error of fail, before they write anything. A nil error lets the commit continue.
func (g *Gate) Fail(fail func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = fail
}

// After makes commits that have succeeded return the error of fn.
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
