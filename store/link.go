package store

import "github.com/larder-dev/larder/internal/limiter"

// Limiter returns the limiter of the store's cluster, of which there is only one (see ErrOtherCluster). The informers
// of the store share it to connect and list in turn.
func (s *Store) Limiter() *limiter.Limiter { return s.link }
