package store

import "github.com/larder-dev/larder/internal/limiter"

// Limiter returns the limiter that all informers of the store share, so that they connect and list in turn. One limiter
// suffices because a store is for one cluster (ErrOtherCluster).
func (s *Store) Limiter() *limiter.Limiter { return s.limiter }
