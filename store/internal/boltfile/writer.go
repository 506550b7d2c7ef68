package boltfile

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Work describes what the writer's place is taken for.
type Work struct {
	// What names the work in the errors of calls that wait in vain.
	What string
	// Frees says that the work frees pages. It may grow the file past MaxSize, because bbolt allocates pages before it can
	// reuse those that the same transaction frees.
	Frees bool
	// Long says that the work takes long if the file is large; it is never reported as slow.
	Long bool
}

// Work of any part of the program.
var (
	Upkeep  = Work{What: "upkeep of the file"}
	Closing = Work{What: "the closing of the store"}
)

const (
	// SlowAfter is how long a write may take before it is reported.
	SlowAfter = 10 * time.Second
	// CloseWait is how long Await waits for a write that the disk does not finish. The write cannot be canceled. It is
	// well below the 30 s after which Kubernetes kills a process, because informers have to end within that time too.
	CloseWait = 10 * time.Second
)

// writing describes the holder of the writer's place.
type writing struct {
	Work
	since time.Time
	slow  atomic.Bool // true once the place has been held for SlowAfter
}

func (w *writing) String() string {
	return fmt.Sprintf("%s has had the writer's place for %v", w.What, time.Since(w.since).Round(time.Millisecond))
}

// TakeWriter takes the writer's place for w. If ctx ends first, the error names the present holder.
func (f *File) TakeWriter(ctx context.Context, w Work) (release func(), err error) {
	select {
	case f.writer <- struct{}{}:
	case <-ctx.Done():
		return nil, f.waited(ctx.Err())
	}
	now := &writing{Work: w, since: time.Now()}
	f.writing.Store(now)
	endWatch := f.watchWrite(now)
	return func() {
		if f.Hooks.Release != nil {
			f.Hooks.Release()
		}
		f.writing.Store(nil)
		endWatch()
		<-f.writer
	}, nil
}

// waited adds the holder of the writer's place to err, the error of a wait for it.
func (f *File) waited(err error) error {
	if w := f.writing.Load(); w != nil {
		return fmt.Errorf("%s: %v: %w", f.Path, w, err)
	}
	return err
}

// watchWrite makes SlowErr return ErrSlowDisk once w takes longer than SlowAfter. The function that it returns ends the
// watch.
func (f *File) watchWrite(w *writing) (end func()) {
	if w.Long {
		return func() {}
	}
	timer := time.AfterFunc(SlowAfter, func() {
		w.slow.Store(true)
		f.o.Slow()
		f.Logger().Info("The disk has not finished a write; what changes meanwhile is in memory only", "write", w.What,
			"after", SlowAfter)
	})
	return func() {
		if !timer.Stop() {
			f.o.Slow()
		}
	}
}

// SlowErr returns ErrSlowDisk with the current write if that has taken longer than ten seconds, or nil.
func (f *File) SlowErr() error {
	if w := f.writing.Load(); w != nil && w.slow.Load() {
		return fmt.Errorf("%v: %w", w, ErrSlowDisk)
	}
	return nil
}

// StillWriting returns an error that wraps ErrStillWriting and names the current write.
func (f *File) StillWriting() error {
	if w := f.writing.Load(); w != nil {
		return fmt.Errorf("%v: %w", w, ErrStillWriting)
	}
	return fmt.Errorf("work in the background has not ended: %w", ErrStillWriting)
}

// Await waits for done, which is closed when the disk has finished. After ten seconds it fails with ErrStillWriting.
func (f *File) Await(done <-chan struct{}) error {
	timer := time.NewTimer(CloseWait)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
	}
	select {
	case <-done:
		return nil
	default:
		return f.StillWriting()
	}
}
