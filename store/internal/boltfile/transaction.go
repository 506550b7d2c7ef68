package boltfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/boltcheck"
)

// View runs fn in one read transaction. Memory from tx is valid until fn returns. fn must not call View or Update.
func (f *File) View(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return f.ViewHandle(ctx, func(_ *Handle, tx *bolt.Tx) error { return fn(tx) })
}

// ViewHandle runs fn in a read transaction, as View does, and also passes the handle of the file to fn.
func (f *File) ViewHandle(ctx context.Context, fn func(h *Handle, tx *bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h, err := f.acquire()
	if err != nil {
		return err
	}
	defer h.Release()
	return f.Classify(h, h.View(func(tx *bolt.Tx) error { return fn(h, tx) }))
}

// ViewFile calls fn in a read transaction, with the file's size and the transaction's id, so that fn can read pages of
// h.File. It repeats the call while fn fails with ErrOvertaken, which means that writers have reused pages. If fn finds
// damage, the File refuses writes from then on.
func (f *File) ViewFile(ctx context.Context, fn func(h *Handle, size int64, txid uint64) error) error {
	err := boltcheck.ErrOvertaken
	for errors.Is(err, boltcheck.ErrOvertaken) {
		err = f.ViewHandle(ctx, func(h *Handle, tx *bolt.Tx) error {
			info, err := h.File.Stat()
			if err != nil {
				return err
			}
			return OwnErrors(fn(h, info.Size(), uint64(tx.ID()))) // Classify makes the File fail if OwnErrors reports damage.
		})
	}
	return err
}

// VerifyIdentity begins a read transaction once per interval until ctx ends or the file is closed or overwritten. So an
// idle store, too, notices that another file was copied over its file.
func (f *File) VerifyIdentity(ctx context.Context, interval time.Duration) {
	for {
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return
		}
		err := f.View(ctx, func(*bolt.Tx) error { return nil })
		if errors.Is(err, ErrOverwritten) || errors.Is(err, ErrClosed) {
			return
		}
	}
}

// Update runs fn in one write transaction and commits it. If Update fails, nothing was stored, unless the error wraps
// ErrOutcomeUnknown. Update does not retry: fn runs at most once.
func (f *File) Update(ctx context.Context, w Work, fn func(tx *bolt.Tx) error) error {
	return f.UpdateThen(ctx, w, fn, func(error) {})
}

// UpdateThen is Update, and calls then with the result before the next writer starts, if it got the writer lock.
func (f *File) UpdateThen(ctx context.Context, w Work, fn func(tx *bolt.Tx) error, then func(err error)) error {
	if f.o.ReadOnly {
		return fmt.Errorf("%s: %w", f.Path, ErrReadOnly)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	release, err := f.TakeWriter(ctx, w)
	if err != nil {
		return err
	}
	defer release()
	err = f.UpdateHeld(ctx, w, fn)
	then(err)
	return err
}

// UpdateHeld is Update for a caller that holds the writer lock.
func (f *File) UpdateHeld(ctx context.Context, w Work, fn func(tx *bolt.Tx) error) error {
	if err := f.Err(); err != nil {
		return fmt.Errorf("nothing is written any more: %w", err)
	}
	if err := f.KeepName(ctx); err != nil {
		return err
	}
	return f.updateOpen(w, fn)
}

// updateOpen is UpdateHeld without the check that the open file still has its name.
func (f *File) updateOpen(w Work, fn func(tx *bolt.Tx) error) error {
	h, err := f.acquire()
	if err != nil {
		return err
	}
	defer h.Release()
	if w.Frees {
		limit := h.DB.MaxSize
		h.DB.MaxSize = 0
		defer func() { h.DB.MaxSize = limit }()
	}
	commit := (*bolt.Tx).Commit
	if f.Commit != nil {
		commit = func(tx *bolt.Tx) error { return f.Commit(tx.Commit) }
	}
	err = f.Classify(h, h.Update(f.unmarking(fn), commit))
	if err != nil {
		f.o.WriteFailed(w, err)
		return err
	}
	f.markedClean = false
	return nil
}

// unmarking returns fn, which also removes the key of a clean close from the root bucket while markedClean is set.
func (f *File) unmarking(fn func(tx *bolt.Tx) error) func(tx *bolt.Tx) error {
	if !f.markedClean {
		return fn
	}
	return func(tx *bolt.Tx) error { return errors.Join(fn(tx), PutClean(tx, false)) }
}

// Close closes the file, and marks it as cleanly closed, unless a write has failed or it is open for reading. The
// caller has called CloseBackground and taken the writer lock. stuck is true if bbolt could not end a transaction.
func (f *File) Close() (stuck bool, err error) {
	f.WaitBackground(0)
	h, failure := f.remove()
	if h == nil {
		return false, nil
	}
	if !f.o.ReadOnly && failure == nil && f.unknown == nil {
		err := h.Update(func(tx *bolt.Tx) error {
			return errors.Join(f.PutTimes(tx), PutClean(tx, true))
		}, (*bolt.Tx).Commit)
		if err != nil {
			f.Logger().Error(err, "The store could not be marked as closed cleanly; it will be verified when it is next opened")
		}
	}
	err = h.Close()
	return h.Stuck.Load(), err
}

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

// Work of the store itself.
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

const copyBuffer = 256 << 10

// CopyTo writes the committed state of the file to w, in one transaction, and returns the number of bytes. It checks
// ctx before each write. An error of w does not make the File refuse writes.
func (f *File) CopyTo(ctx context.Context, w io.Writer) (n int64, err error) {
	out := &copyWriter{ctx: ctx, w: w}
	err = f.View(ctx, func(tx *bolt.Tx) error {
		buffered := bufio.NewWriterSize(out, copyBuffer)
		_, err := tx.WriteTo(buffered)
		if err == nil {
			err = buffered.Flush()
		}
		switch {
		case out.err != nil:
			return nil //nolint:nilerr // The writer failed, not the file, so Classify must not see the error.
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return &FaultError{What: "the file is shorter than its pages need"}
		}
		return err
	})
	if err = errors.Join(err, out.err); err != nil {
		err = ClassifySpace(err)
	}
	return out.n, err
}

// copyWriter writes to w until ctx ends or a write fails.
type copyWriter struct {
	ctx context.Context
	w   io.Writer
	n   int64 // n is the number of bytes written so far.
	err error
}

func (c *copyWriter) Write(p []byte) (n int, err error) {
	if err := c.ctx.Err(); err != nil {
		c.err = err
		return 0, err
	}
	n, err = c.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	c.n, c.err = c.n+int64(n), err
	return n, err
}
