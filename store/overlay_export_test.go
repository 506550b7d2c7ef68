package store

import (
	"context"
	"sync"

	bolt "go.etcd.io/bbolt"
)

// Gate is what a test does to the commits of a store. Its zero value lets them pass.
type Gate struct {
	mu       sync.Mutex
	attempts int           // guarded by mu
	held     chan struct{} // guarded by mu; commits wait until it is closed
	entered  chan struct{} // guarded by mu; closed when one waits
	fail     func() error  // guarded by mu; before the commit
	after    func() error  // guarded by mu; once it has succeeded
}

// GateCommits puts a gate before every commit of s.
func GateCommits(s *Store) *Gate {
	g := &Gate{}
	s.hooks.commit = g.commit
	return g
}

func (g *Gate) commit(tx *bolt.Tx) error {
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
			_ = tx.Rollback()
			return err
		}
	}
	if err := tx.Commit(); err != nil || after == nil {
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

// SetPendingLimit makes those who write wait once so many bytes are pending.
func SetPendingLimit(s *Store, n int) { s.commits.limit = n }

// TakeWriter keeps everybody else from writing until release is called.
func TakeWriter(s *Store) (release func(), err error) {
	return s.takeWriter(context.Background(), "a test")
}
