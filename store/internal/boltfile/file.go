package boltfile

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/boltcheck"
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
	// Commit replaces tx.Commit in tests. Set it while no write runs. May be nil.
	Commit func(tx *bolt.Tx) error

	background
	clocks
	current
	writerLock

	o    Options
	real string // real is the absolute path without symbolic links, for all file operations; resolve sets it.
	anew anew   // Only the holder of the writer lock uses anew.
	// hidden is true if a lack of permissions prevented the check of KeepName. Only the holder of the writer lock uses it.
	hidden bool
	// markedClean is true while the root bucket may say that the file was closed cleanly; the first commit removes that
	// key. Only the holder of the writer lock uses it.
	markedClean bool
	// Exchange holds exchanging. Take the writer lock first.
	exchanging base.Mutex
	retiring   atomic.Int32 // retiring is the number of replaced files that readers still use.

	// quarantined is the name to which Open moved a damaged file. unverified is true if Open has not verified some pages.
	// wasClean is true if the file had been closed cleanly.
	quarantined          string
	unverified, wasClean bool
}

// Options are the options of New. Functions may be nil, except Copy of a file that is not ReadOnly.
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
	// Wall returns the time of the wall clock. Default time.Now.
	Wall   func() time.Time
	Commit func(tx *bolt.Tx) error
	// Unlock reads the data keys from a file that is being opened. If it fails with ErrDamaged, the file is moved aside.
	Unlock func(ctx context.Context, h *Handle) error
	// Copy copies old unchanged to a file made by Fresh. The File calls it, with the writer lock held, if the open file
	// was removed: the copy takes its name. Required unless ReadOnly is set.
	Copy func(ctx context.Context, old *Handle) (fresh *Handle, err error)
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
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Unlock == nil {
		o.Unlock = func(context.Context, *Handle) error { return nil }
	}
	if o.WriteFailed == nil {
		o.WriteFailed = func(Work, error) {}
	}
	if o.Slow == nil {
		o.Slow = func() {}
	}
	f := &File{Path: path, MaxSize: o.MaxSize, Commit: o.Commit, o: o, exchanging: base.NewMutex()}
	f.background.init(f.Logger)
	f.clocks = clocks{wall: o.Wall}
	f.current = current{path: path, failed: make(chan struct{})}
	f.writerLock = writerLock{path: path, log: f.Logger, onSlow: o.Slow, token: make(chan struct{}, 1)}
	return f
}

func (f *File) Logger() logr.Logger {
	if f.o.Logger != nil {
		return f.o.Logger.WithValues("file", f.Path)
	}
	return klog.Background().WithValues("file", f.Path)
}

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
