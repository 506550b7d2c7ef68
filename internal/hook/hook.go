// Package hook lets tests intercept a store's commits and clock. Only tests use it.
package hook

import (
	"sync"
	"time"
)

// Hooks replace parts of a store. The zero value changes nothing.
type Hooks struct {
	// Commit replaces the commit of each transaction of the store. It must call commit once. If it returns an error
	// without a call of commit, the transaction stores nothing.
	Commit func(commit func() error) error
	// Wall replaces the wall clock. The store reads the wall clock when it is opened, and to note when a collection was
	// last used.
	Wall func() time.Time
	// DirtyLimit, if not 0, replaces the maximum number of uncommitted bytes in memory.
	DirtyLimit int
	// IdentityInterval, if not 0, replaces the interval at which an idle store checks that its path still names its file.
	// Tests in which months of fake time pass set it.
	IdentityInterval time.Duration
}

// Gate is a Commit hook that delays or fails commits for a test. The zero value changes nothing. Set Hooks.Commit to
// its Commit.
type Gate struct {
	mu       sync.Mutex
	attempts int           // number of commits so far; mu guards all fields
	held     chan struct{} // commits wait until held is closed
	entered  chan struct{} // entered is closed when a commit begins to wait
	fail     func() error  // fail returns the error with which a commit fails before it writes
	after    func() error  // after is called after a successful commit; its error is the commit's result
}

// Commit is a function for Hooks.Commit. It commits, unless Hold or Fail prevents the commit.
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

// Fail makes commits return the error of fail before they write. If fail returns nil, the commit continues.
func (g *Gate) Fail(fail func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = fail
}

// After makes successful commits return the error of fn.
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
