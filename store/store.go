package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/seal"
)

// Options are the options of Open. The zero value works.
type Options struct {
	// ReadOnly opens the file for inspection, with a shared lock.
	ReadOnly bool
	// LockTimeout is how long to wait while another process holds the file.
	// Default 1 s; negative does not wait. Who waits for long uses OpenContext.
	LockTimeout time.Duration
	// MaxSize bounds the file, in bytes: what does not fit stays in memory (ErrNoSpace). Up to 4 MiB of it stay unused,
	// since the file grows by as much at a time. A file that is larger already is opened, and written as far as there is
	// room in it. Default: none.
	MaxSize int64
	// ForgetAfter is how long a collection is kept that nobody opens for writing. It is dropped no sooner than an hour
	// after Open, and up to two days late, since use is noted to a day. Time while the store is closed counts as a day at
	// most, whatever the clock says then: neither a program that was away nor a clock that jumps makes a collection
	// unused. Default 30 days; negative is for ever.
	ForgetAfter time.Duration
	// CommitInterval is how long what Apply was given may wait in memory for its commit; a crash loses it, and the server
	// sends it again. An object that changes often in between is written once. Default 1 s. See Flush for a commit at
	// once.
	CommitInterval time.Duration
	// CommitBytes is how much may wait before it is committed sooner. At twice as much Apply waits for the commit; see
	// Collection.WaitRoom. Default 4 MiB; more than 64 MiB counts as that.
	CommitBytes int
	// Logger is told of quarantine, rebuilds and skipped objects. Its sink may be called while the store is written: it
	// may read, and must not wait for anything that writes. Default: klog.Background().
	Logger *logr.Logger
	// Encryption seals what is stored of some kinds, Secrets by default. Default: nothing is sealed. A file that holds
	// something sealed can be opened without it; the collections that do cannot (ErrSealed).
	Encryption *seal.Encryption
	// Hooks are for tests of this module.
	Hooks *hook.Hooks

	// pageSize of a file that is made, for tests. Default defaultPageSize.
	pageSize int
	// atOnce: Apply commits before it returns, for tests.
	atOnce bool
	// dropStep is how many bytes of a dropped collection a transaction removes, for tests. Default dropStep.
	dropStep int
}

// defaultPageSize is that of a file that is made, on every system; docs/adr/0006 has the figures.
const defaultPageSize = 4 << 10

func (o Options) newPageSize() int {
	if o.pageSize == 0 {
		return defaultPageSize
	}
	return o.pageSize
}

// defaultLockTimeout is Options.LockTimeout if that is zero.
const defaultLockTimeout = time.Second

// lockTimeout returns LockTimeout with its default, and 0 for "do not wait".
func (o Options) lockTimeout() time.Duration {
	if o.LockTimeout == 0 {
		return defaultLockTimeout
	}
	return max(o.LockTimeout, 0)
}

// Defaults of Options.CommitInterval and CommitBytes.
const (
	defaultCommitInterval = time.Second
	defaultCommitBytes    = 4 << 20
)

func (o Options) commitInterval() time.Duration {
	if o.CommitInterval <= 0 {
		return defaultCommitInterval
	}
	return o.CommitInterval
}

func (o Options) commitBytes() int {
	if o.CommitBytes <= 0 {
		return defaultCommitBytes
	}
	return o.CommitBytes
}

// CollectionOptions are the options of Store.Collection.
type CollectionOptions struct {
	// Codec of the objects. Required.
	Codec codec.Codec
	// KeyFunc returns an object's key. Default cache.DeletionHandlingMetaNamespaceKeyFunc.
	KeyFunc cache.KeyFunc
	// Indexers to start with; more can be added later.
	Indexers cache.Indexers
	// IndexVersions: see Interface.AddIndexers.
	IndexVersions map[string]string
	// Resource is stored for the command line.
	Resource entry.ResourceInfo
	// Residency says which objects are kept decoded in memory. Default All.
	Residency Residency
	// Compression of the objects in the file. Default none.
	Compression Compression
	// Seal has the collection sealed whatever Options.Encryption says of its resource. It fails if the store has no keys.
	Seal bool
	// Committed is called after each attempt to commit what the collection has pending, by the goroutine that made it and
	// under no lock. It must not wait for a commit. May be nil.
	Committed func(Commit)
	// Closing reports whether the one who opens the collection is about to close it: who opens it next waits for that, and
	// is refused at once otherwise. It must not block. Default: it is not.
	Closing func() bool
}

// Store is one file of collections.
//
// The open bbolt file is a handle, which Rebuild can exchange while
// collections are open: they reach it through view and update only. A write
//
//  1. takes the writer's place (one at a time),
//  2. runs the caller's function in a bbolt transaction, with faults contained,
//  3. commits, and
//  4. classifies what went wrong: see errors.go.
type Store struct {
	// open holds the names of the collections that are open; see collections.go.
	open openSet

	path string // as it was given to Open: what messages call the file
	real string // absolute, symbolic links followed: what every file operation uses; set by resolve
	o    Options
	// unverified: there are pages of the file that Open has not looked at; wasClean: it had been closed cleanly.
	unverified, wasClean bool
	background           background
	hooks                hooks
	commits              commits
	link                 *limiter.Limiter
	ending               ending
	usedNotes            usedNotes
	tallies              tallies
	steady               atomic.Pointer[steady] // set by Open
	keys                 *keyring               // nil without Options.Encryption; set by Open
	// ids of the keys that open what is sealed; set by Open where there are none
	sealedUnder []string
	retiring    atomic.Int32 // files that were replaced and are still read; see retire
	plainTold   sync.Map     // names of collections; see Collection.tellPlainText

	// writer has room for the one that writes; see takeWriter.
	writer chan struct{}
	hidden bool // the file's name could not be looked at; who has the writer's place
	anew   anew
	// exchanging is held by whoever has another file take the place of the store's; it comes after the writer's place.
	exchanging patient.Mutex
	writing    atomic.Pointer[writing] // nil while nobody has said what for
	// verified is when Check last found nothing wrong; nil is never.
	verified atomic.Pointer[time.Time]

	mu sync.Mutex
	// quarantined is where a damaged file went when this one was opened; guarded by mu.
	quarantined string
	handle      *boltfile.Handle         // guarded by mu; nil once closed
	failure     error                    // guarded by mu; why nothing is written any more
	failed      chan struct{}            // guarded by mu; closed while failure is not nil
	written     int64                    // guarded by mu; bytes of pages, through the handles before this one
	rebuilds    int                      // guarded by mu; how many Rebuilds there were
	losses      map[string]int           // guarded by mu; by collection, see Collection.Losses
	live        map[*Collection]struct{} // guarded by mu; the open collections
}

// Path returns the file's name as it was given to Open.
func (s *Store) Path() string { return s.path }

// Quarantined returns the name under which a damaged file was put aside when
// this store was opened, or "" if nothing was wrong.
func (s *Store) Quarantined() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quarantined
}

// ReadOnly reports whether the store was opened for reading only: every write fails with ErrReadOnly.
func (s *Store) ReadOnly() bool { return s.o.ReadOnly }

func (s *Store) logger() logr.Logger {
	if s.o.Logger != nil {
		return s.o.Logger.WithValues("file", s.path)
	}
	return klog.Background().WithValues("file", s.path)
}

// Err returns why the store refuses to write: an error that wraps
// ErrOutcomeUnknown or ErrDamaged, and nil while all is well. It lasts until
// Rebuild has succeeded.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// Failed returns a channel that is closed once Err is not nil: whoever met the
// damage, a reader too, the one who writes has to call Rebuild. After that there
// is another channel.
func (s *Store) Failed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Check verifies the whole file: that each page is sound and used once, and
// what the collections hold. Contents are looked at only if the pages are sound.
// The error is of reading; what is wrong with the file is in the report.
//
// It reads about 1 MiB in a transaction, or four times the list of free pages where that is more; but the branch pages,
// about a hundredth of the file, it reads in one. What others write meanwhile is no damage to it. While it counts
// objects it takes turns with those who write.
func (s *Store) Check(ctx context.Context) (Report, error) { return s.check(ctx, nil) }

// check is Check, or Scrub if p, the rate that it is held to, is not nil.
func (s *Store) check(ctx context.Context, p *pace) (Report, error) {
	pages, err := s.walkBranches(ctx) // not held to the rate: it is one transaction
	if err == nil && len(pages) == 0 {
		pages, err = s.walkPages(ctx, p)
	}
	if err != nil {
		return Report{}, fmt.Errorf("check %s: %w", s.path, err)
	}
	r := Report{Problems: pages}
	if len(pages) > 0 {
		return r, nil
	}
	if err := s.checkContent(ctx, &r, p); err != nil {
		return r, fmt.Errorf("check %s: %w", s.path, err)
	}
	if len(r.Problems) == 0 {
		now := time.Now()
		s.verified.Store(&now)
	}
	return r, nil
}

// Scrubbed returns when Check, or Scrub, last found nothing wrong with the file since it was opened; zero if never. How
// long ago that is time.Since tells whatever the clock was set to in between.
func (s *Store) Scrubbed() time.Time {
	if at := s.verified.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Scrub checks the whole file, as Check does. It reads the branch pages as fast as it can, and then 64 MiB a second at
// most, the list of free pages in each of its transactions among it. Damage that it finds is treated as if a reader had
// met it: writing stops (Err, Failed) until Rebuild, which the informers on the store call. It is for those who keep a
// store that is seldom read.
func (s *Store) Scrub(ctx context.Context) error {
	report, err := s.check(ctx, &pace{rate: verifyRate})
	if err != nil || len(report.Problems) == 0 {
		return err
	}
	return s.problemError(report.Problems[0])
}

// problemError is a problem of a Report as an error.
func (s *Store) problemError(problem string) error {
	return fmt.Errorf("%s: %s: %w", s.path, problem, entry.ErrDamaged)
}

// Size returns the file's size and the part of it that is free, in bytes. It reads a few pages, whatever the size.
func (s *Store) Size() (total, free int64, err error) {
	err = s.viewFile(context.Background(), func(h *boltfile.Handle, size int64, txid uint64) error {
		total = size
		free, err = boltcheck.FreeBytes(h.File, txid)
		return err
	})
	return total, free, err
}

// Written returns how many bytes this Store has written since it was opened: whole pages, as bbolt
// writes them, those of a Rebuild and of a Compact too.
func (s *Store) Written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handle == nil {
		return s.written
	}
	return s.written + s.handle.Written.Load()
}

// Report is what Check found.
type Report struct {
	Collections int
	Objects     int
	// IndexEntries checked, both ways.
	IndexEntries int
	// Sealed is how many of the objects were not opened, since the store has no keys: their checksums have been verified,
	// not what is in them.
	Sealed int
	// LeftOut is how many objects Info.LeftOut names, and LeftOutMore whether there may be others: the store is sound
	// without them, and their next informer gets them again.
	LeftOut     int
	LeftOutMore bool
	// Problems, one line each, that name collection and key. Empty is good.
	Problems []string
}
