package store

import "github.com/larder-dev/larder/internal/limiter"

// Limiter is shared by all who talk to the cluster that is in this store, of which there is one (see ErrOtherCluster): the
// informers of the store connect and list in turn by it.
func (s *Store) Limiter() *limiter.Limiter { return s.link }
