package boltfile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/internal/hook"
)

// File is a bbolt file that is kept open under its name.
//
// The open file is a Handle, which Exchange can replace while the File is in use: callers reach the Handle through View
// and Update only. A write
//
//  1. takes the writer lock (one at a time),
//  2. runs the caller's function in a bbolt transaction, with faults contained,
//  3. commits, and
//  4. classifies the error, if any: see Classify.
type File struct {
	// Path is the file name that the caller gave to New, for messages and errors.
	Path string
	// MaxSize is Options.MaxSize. A change applies to files that are opened or made later.
	MaxSize int64
	// Commit is Hooks.Commit. Tests set it while no write runs. May be nil.
	Commit func(commit func() error) error

	background
	clocks
	current
	damage
	writerLock

	o Options
	// unknown is the last commit whose outcome is unknown: the next write exchanges the file for a copy first. Exchange
	// sets it to nil. Only the holder of the writer lock uses unknown.
	unknown *UnknownError
	real    string // real is the absolute path without symbolic links, for all file operations; resolve sets it.
	anew    anew   // Only the holder of the writer lock uses anew.
	// hidden is true if a lack of permissions prevented the check of KeepName. Only the holder of the writer lock uses it.
	hidden bool
	// markedClean is true while the root bucket may say that the file was closed cleanly; the first commit removes that
	// key. Only the holder of the writer lock uses it.
	markedClean bool
	retiring    atomic.Int32 // retiring is the number of replaced files that readers still use.

	// quarantined is the name to which Open moved a damaged file. unverified is true if Open has not verified some pages.
	// wasClean is true if the file had been closed cleanly.
	quarantined          string
	unverified, wasClean bool
}

// Options are the options of New. Functions may be nil.
type Options struct {
	// ReadOnly opens the file for inspection, with a shared lock.
	ReadOnly bool
	// LockTimeout is the maximum wait for the lock of another process on the file.
	LockTimeout time.Duration
	// MaxSize is the maximum size of the file in bytes; 0 for no limit. A new file is made even if its first pages exceed
	// MaxSize.
	MaxSize int64
	// PageSize is the page size of new files; 0 for the system's.
	PageSize int
	// DropStep is the approximate number of bytes of a dropped collection that one transaction removes. Default 16 MiB.
	DropStep int
	// Logger is the logger; nil for klog's.
	Logger *logr.Logger
	// Hooks are for tests. Hooks.Commit and Hooks.Wall are used.
	Hooks hook.Hooks
	// Unlock reads the data keys from a file that is being opened. If it fails with ErrDamaged, the file is moved aside.
	Unlock func(ctx context.Context, h *Handle) error
	// Copy copies old to a file made by Fresh: unchanged, or with salvage its readable part. The File calls it, with the
	// writer lock held, if the open file was removed or the outcome of a commit is unknown: the copy takes its name. Open
	// calls it with salvage for a damaged file. Default: it fails.
	Copy func(ctx context.Context, old *Handle, salvage bool) (fresh *Handle, err error)
	// WriteFailed is called after a failed write, by the holder of the writer lock.
	WriteFailed func(w Work, err error)
	// Slow is called when a write has taken longer than SlowAfter, and once more at the end of that write.
	Slow func()
}

// New returns a File that is not open yet. Call Open or OpenExisting.
func New(path string, o Options) *File {
	if o.DropStep == 0 {
		o.DropStep = dropStep
	}
	if o.Hooks.Wall == nil {
		o.Hooks.Wall = time.Now
	}
	if o.Unlock == nil {
		o.Unlock = func(context.Context, *Handle) error { return nil }
	}
	if o.Copy == nil {
		o.Copy = func(context.Context, *Handle, bool) (*Handle, error) { return nil, errors.ErrUnsupported }
	}
	if o.WriteFailed == nil {
		o.WriteFailed = func(Work, error) {}
	}
	if o.Slow == nil {
		o.Slow = func() {}
	}
	f := &File{Path: path, MaxSize: o.MaxSize, Commit: o.Hooks.Commit, o: o}
	f.background.init(f.Logger)
	f.clocks = clocks{wall: o.Hooks.Wall}
	f.current = current{path: path, failed: make(chan struct{})}
	f.damage = damage{keys: map[string]map[string]struct{}{}, found: make(chan struct{})}
	f.writerLock = writerLock{path: path, log: f.Logger, onSlow: o.Slow, token: make(chan struct{}, 1)}
	return f
}

// Logger returns the logger of messages about the file.
func (f *File) Logger() logr.Logger {
	if f.o.Logger != nil {
		return f.o.Logger.WithValues("file", f.Path)
	}
	return klog.Background().WithValues("file", f.Path)
}

// ReadOnly reports whether the file is open for reading only.
func (f *File) ReadOnly() bool { return f.o.ReadOnly }

// Quarantined returns the name to which Open moved a damaged file, or "".
func (f *File) Quarantined() string { return f.quarantined }

// Size returns the size of the file and of its free pages, in bytes. It reads only a few pages.
func (f *File) Size() (total, free int64, err error) {
	err = f.ViewFile(context.Background(), func(h *Handle, size int64, txid uint64) error {
		total = size
		free, err = boltcheck.FreeBytes(h.File, txid)
		return err
	})
	return total, free, err
}

// Unverified reports whether Open has left pages for a verification in the background: some of the branch pages if the
// file had been closed cleanly, and otherwise the leaves.
func (f *File) Unverified() (unverified, wasClean bool) { return f.unverified, f.wasClean }

type current struct {
	path string

	mu      sync.Mutex
	handle  *Handle       // mu guards handle; nil before Open and after Close.
	failure error         // mu guards failure, the error that stopped all writes.
	failed  chan struct{} // failed is closed once failure is not nil.
	written int64         // mu guards written, the bytes written through replaced handles.
}

// acquire returns the current handle, which the caller must release. It fails with ErrClosed if the file is not open,
// and with ErrOverwritten once a transaction has found that another file was copied over the file.
func (c *current) acquire() (*Handle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == nil {
		return nil, fmt.Errorf("%s: %w", c.path, ErrClosed)
	}
	if errors.Is(c.failure, ErrOverwritten) {
		return nil, c.failure
	}
	c.handle.Users.Add(1)
	return c.handle, nil
}

// Err returns the error that stopped all writes, or nil. The error wraps ErrDamaged or ErrOverwritten, which stops
// reads too, or ErrOutcomeUnknown where an open file cannot be exchanged.
func (c *current) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// Failed returns a channel that is closed once Err is not nil.
func (c *current) Failed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// fail sets the failure of the file. It returns false if h is not the current handle, or if the file has failed before.
func (c *current) fail(h *Handle, reason error) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.handle != h:
		return false
	case c.failure == nil:
		c.failure = reason
		close(c.failed)
		return true
	case errors.Is(reason, ErrOverwritten):
		c.failure = reason
	}
	return false
}

func (c *current) IsCurrent(h *Handle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handle == h
}

// use makes h the current handle. It calls then before any caller can acquire h.
func (c *current) use(h *Handle, then func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaceLocked(h)
	then()
}

func (c *current) remove() (h *Handle, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h = c.handle
	c.replaceLocked(nil)
	return h, c.failure
}

func (c *current) replaceLocked(h *Handle) {
	if c.handle != nil {
		c.written += c.handle.Written.Load()
	}
	c.handle = h
}

// Written returns the bytes of the pages written since the file was opened, including the copies by Exchange.
func (c *current) Written() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == nil {
		return c.written
	}
	return c.written + c.handle.Written.Load()
}

// background owns the background goroutines of a File. Make it with init.
type background struct {
	log    func() logr.Logger
	ctx    context.Context
	cancel context.CancelFunc

	mu sync.Mutex
	// running is the number of goroutines, and every change signals ended; mu guards running. A sync.WaitGroup would not
	// do, because a goroutine may start while CloseBackground waits.
	running int
	ended   *sync.Cond
}

func (b *background) init(log func() logr.Logger) {
	b.log, b.ended = log, sync.NewCond(&b.mu)
	b.ctx, b.cancel = context.WithCancel(context.Background())
}

// CloseBackground cancels the background work and waits for its end.
func (b *background) CloseBackground() {
	b.cancel()
	b.WaitBackground(0)
}

func (b *background) WaitBackground(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.running > most {
		b.ended.Wait()
	}
}

func (b *background) ending() bool { return b.ctx.Err() != nil }

// Go runs fn in a goroutine that CloseBackground cancels and waits for. After CloseBackground, fn gets a cancelled
// context, and Close waits for fn.
func (b *background) Go(name string, fn func(ctx context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running++
	go func() {
		b.log().V(4).Info("Background work starts", "work", name)
		fn(b.ctx)
		b.log().V(4).Info("Background work ended", "work", name)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.running--
		b.ended.Broadcast()
	}()
}

// Workers runs the background goroutines of one user of a File, such as a collection.
type Workers struct {
	file    *File
	ctx     context.Context // Stop cancels ctx, the context of the goroutines.
	cancel  context.CancelFunc
	mu      sync.Mutex // Start, Do and Stop hold mu while they check or end ctx; running grows only under mu.
	running sync.WaitGroup
}

// Workers returns a Workers for one user of the file. It has no goroutines yet.
func (f *File) Workers() *Workers {
	w := &Workers{file: f}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Start calls fn in a goroutine. Stop and CloseBackground cancel the context of fn and wait for fn. After Stop, Start
// calls fn directly, with a cancelled context.
func (w *Workers) Start(name string, fn func(ctx context.Context)) {
	w.mu.Lock()
	stopped := w.ctx.Err() != nil
	if !stopped {
		w.running.Add(1)
	}
	w.mu.Unlock()
	if stopped {
		fn(w.ctx)
		return
	}
	w.file.Go(name, func(storeCtx context.Context) {
		defer w.running.Done()
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		defer context.AfterFunc(storeCtx, cancel)()
		fn(ctx)
	})
}

// Do calls fn in the caller's goroutine. Stop cancels fn's context and waits for fn; Do then returns ErrClosed if fn
// fails. After Stop, Do returns ErrClosed at once.
func (w *Workers) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	w.mu.Lock()
	if w.ctx.Err() != nil {
		w.mu.Unlock()
		return ErrClosed
	}
	w.running.Add(1)
	w.mu.Unlock()
	defer w.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	err := fn(ctx)
	if err != nil && w.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// Stop cancels the contexts of Start and Do, and waits for their functions.
func (w *Workers) Stop() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.Wait()
}

// Wait waits until no function is running.
func (w *Workers) Wait() { w.running.Wait() }
