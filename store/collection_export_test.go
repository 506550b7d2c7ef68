package store

import "context"

// SetLimits makes relists of c leave memory after staging bytes, and commit
// about as many bytes a transaction.
func SetLimits(c *Collection, staging, commit int) {
	c.limits = limits{staging: staging, commit: commit}
}

// WaitBuilds returns once no index of c is being built.
func WaitBuilds(c *Collection) { c.builds.running.Wait() }

// CheckContent is the part of Store.Check that looks at the contents.
func CheckContent(ctx context.Context, s *Store) (r Report, err error) {
	err = s.checkContent(ctx, &r)
	return r, err
}

// NoSync leaves out the fsyncs, for tests that commit often and never crash.
func NoSync(s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle.db.NoSync = true
}
