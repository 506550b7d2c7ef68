package store

import (
	"context"
	"fmt"
	"time"
)

// What has the writer's place, as those who wait for it in vain are told.
const (
	rebuilding = "a rebuild of the file"
	closing    = "the closing of the store"
	compacting = "a compaction of the file"
	upkeep     = "upkeep of the file"
	committing = "a commit of what is pending"
)

// writing is who has the writer's place.
type writing struct {
	what  string
	since time.Time
}

// takeWriter takes the writer's place for what it says. If ctx ends before there is room, the error tells who has it.
func (s *Store) takeWriter(ctx context.Context, what string) (release func(), err error) {
	select {
	case s.writer <- struct{}{}:
	case <-ctx.Done():
		if w := s.writing.Load(); w != nil {
			return nil, fmt.Errorf("%s: %s has had the writer's place for %v: %w", s.path, w.what, time.Since(w.since).Round(time.Millisecond), ctx.Err())
		}
		return nil, ctx.Err()
	}
	s.writing.Store(&writing{what, time.Now()})
	return func() {
		s.writing.Store(nil)
		<-s.writer
	}, nil
}
