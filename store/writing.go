package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// The values of writing.what: what the writer's place is held for. They are in the errors of calls that wait in vain.
const (
	rebuilding = "a rebuild of the file"
	closing    = "the closing of the store"
	compacting = "a compaction of the file"
	upkeep     = "upkeep of the file"
	checking   = "a check of the file"
	committing = "a commit of what is pending"
	dropping   = "the removal of a collection"
	forgetting = "the removal of a durable handler"
	trimming   = "the removal of tombstones"
)

// slowAfter is how long a write may take before it is reported.
const slowAfter = 10 * time.Second

// writing describes the holder of the writer's place.
type writing struct {
	what  string
	since time.Time
	slow  atomic.Bool // true once the place has been held for slowAfter
}

func (w *writing) String() string {
	return fmt.Sprintf("%s has had the writer's place for %v", w.what, time.Since(w.since).Round(time.Millisecond))
}

// takeWriter takes the writer's place; what says what for. If ctx ends first, the error names the present holder.
func (s *Store) takeWriter(ctx context.Context, what string) (release func(), err error) {
	select {
	case s.writer <- struct{}{}:
	case <-ctx.Done():
		return nil, s.waited(ctx.Err())
	}
	w := &writing{what: what, since: time.Now()}
	s.writing.Store(w)
	watch := s.watchWrite(w)
	return func() {
		if s.hooks.release != nil {
			s.hooks.release()
		}
		s.writing.Store(nil)
		watch()
		<-s.writer
	}, nil
}

// waited adds the holder of the writer's place to err, the error of a wait for it.
func (s *Store) waited(err error) error {
	if w := s.writing.Load(); w != nil {
		return fmt.Errorf("%s: %v: %w", s.path, w, err)
	}
	return err
}

// watchWrite makes CommitErr return ErrSlowDisk once w takes longer than slowAfter. The function that it returns ends
// the watch.
func (s *Store) watchWrite(w *writing) (end func()) {
	if w.what == rebuilding || w.what == compacting {
		return func() {} // these take long if the file is large
	}
	timer := time.AfterFunc(slowAfter, func() {
		w.slow.Store(true)
		s.commits.madeProgress()
		s.logger().Info("The disk has not finished a write; what changes meanwhile is in memory only", "write", w.what,
			"after", slowAfter)
	})
	return func() {
		if !timer.Stop() {
			s.commits.madeProgress()
		}
	}
}

// slowErr returns ErrSlowDisk with the current write if that has taken longer than slowAfter, or nil.
func (s *Store) slowErr() error {
	if w := s.writing.Load(); w != nil && w.slow.Load() {
		return fmt.Errorf("%v: %w", w, ErrSlowDisk)
	}
	return nil
}
