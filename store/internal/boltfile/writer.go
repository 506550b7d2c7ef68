package boltfile

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Work describes the reason for which a caller takes the writer lock.
type Work struct {
	// What names the work in the errors of callers whose wait for the writer lock fails.
	What string
	// Frees is true if the work frees pages. Freeing work may grow the file past MaxSize, because bbolt allocates pages
	// before it can reuse the pages that the same transaction frees.
	Frees bool
	// Long exempts work that takes long in a large file from the report of slow writes.
	Long bool
}

var (
	Upkeep  = Work{What: "upkeep of the file"}
	Closing = Work{What: "the closing of the store"}
)

const (
	// SlowAfter is the duration after which a write is reported as slow.
	SlowAfter = 10 * time.Second
	// CloseWait bounds the wait for a write that the disk does not finish. Such a write cannot be canceled. CloseWait is
	// well below the 30 s after which Kubernetes kills a process, because informers must end within that time too.
	CloseWait = 10 * time.Second
)

type writing struct {
	Work
	since time.Time
	slow  atomic.Bool // slow is true once the writer lock has been held for SlowAfter.
}

func (w *writing) String() string {
	return fmt.Sprintf("%s has held the writer lock for %v", w.What, time.Since(w.since).Round(time.Millisecond))
}

type writerLock struct {
	// OnRelease is called before the writer lock is released, in tests. Set it while no write runs. May be nil.
	OnRelease func()

	path   string
	log    func() logr.Logger
	onSlow func() // onSlow is Options.Slow.

	token chan struct{}           // token has capacity 1, and is full while a caller has the writer lock.
	now   atomic.Pointer[writing] // now is the current write, or nil.
}

// TakeWriter takes the writer lock for w. If ctx ends first, the error names the current holder.
func (p *writerLock) TakeWriter(ctx context.Context, w Work) (release func(), err error) {
	select {
	case p.token <- struct{}{}:
	case <-ctx.Done():
		return nil, p.waited(ctx.Err())
	}
	now := &writing{Work: w, since: time.Now()}
	p.now.Store(now)
	endWatch := p.watch(now)
	return func() {
		if p.OnRelease != nil {
			p.OnRelease()
		}
		p.now.Store(nil)
		endWatch()
		<-p.token
	}, nil
}

// waited adds the holder of the writer lock to err, the error of a failed wait for that lock.
func (p *writerLock) waited(err error) error {
	if w := p.now.Load(); w != nil {
		return fmt.Errorf("%s: %v: %w", p.path, w, err)
	}
	return err
}

// watch makes SlowErr return ErrSlowDisk once w takes longer than SlowAfter. The caller calls end when w ends.
func (p *writerLock) watch(w *writing) (end func()) {
	if w.Long {
		return func() {}
	}
	timer := time.AfterFunc(SlowAfter, func() {
		w.slow.Store(true)
		p.onSlow()
		p.log().Info("The disk has not finished a write; what changes meanwhile is in memory only", "write", w.What,
			"after", SlowAfter)
	})
	return func() {
		if !timer.Stop() {
			p.onSlow()
		}
	}
}

// SlowErr returns ErrSlowDisk, with the current write, if that write takes longer than SlowAfter, and otherwise nil.
func (p *writerLock) SlowErr() error {
	if w := p.now.Load(); w != nil && w.slow.Load() {
		return fmt.Errorf("%v: %w", w, ErrSlowDisk)
	}
	return nil
}

func (p *writerLock) StillWriting() error {
	if w := p.now.Load(); w != nil {
		return fmt.Errorf("%v: %w", w, ErrStillWriting)
	}
	return fmt.Errorf("work in the background has not ended: %w", ErrStillWriting)
}

// Await waits until the disk has finished and done is closed. After CloseWait it fails with ErrStillWriting.
func (p *writerLock) Await(done <-chan struct{}) error {
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
		return p.StillWriting()
	}
}
