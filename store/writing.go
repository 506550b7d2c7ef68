package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// What has the writer's place, as those who wait for it in vain are told.
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

// writing is who has the writer's place.
type writing struct {
	what  string
	since time.Time
	slow  atomic.Bool // for longer than slowAfter
}

func (w *writing) String() string {
	return fmt.Sprintf("%s has had the writer's place for %v", w.what, time.Since(w.since).Round(time.Millisecond))
}

// takeWriter takes the writer's place for what it says. If ctx ends before there is room, the error tells who has it.
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

// waited returns the error of a wait for the writer, with who that is.
func (s *Store) waited(err error) error {
	if w := s.writing.Load(); w != nil {
		return fmt.Errorf("%s: %v: %w", s.path, w, err)
	}
	return err
}

// watchWrite has CommitErr tell when w takes long. The function that it returns ends that.
func (s *Store) watchWrite(w *writing) (end func()) {
	if w.what == rebuilding || w.what == compacting {
		return func() {} // which take as long as the file is large
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

// slowErr returns the error of a write that takes long, or nil.
func (s *Store) slowErr() error {
	if w := s.writing.Load(); w != nil && w.slow.Load() {
		return fmt.Errorf("%v: %w", w, ErrSlowDisk)
	}
	return nil
}
