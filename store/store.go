package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/check"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// Options are the options of Open. The zero value works.
type Options struct {
	// ReadOnly opens the file for inspection, with a shared lock.
	ReadOnly bool
	// LockTimeout is how long to wait while another process holds the file. Default 1 s; negative does not wait.
	LockTimeout time.Duration
	// MaxSize is the maximum size of the file in bytes; writes that do not fit stay in memory (ErrNoSpace). The file may
	// end up to 4 MiB below it, since it grows by 4 MiB at a time. A larger file is opened, and its free pages are used.
	// Default: no maximum; 1.9 GiB in a 32-bit program, which refuses files of more than 2 GiB.
	MaxSize int64
	// CommitInterval is how long changes from Apply may wait in memory for their commit. A crash loses them, and the
	// server sends them again. An object that changes several times in between is written once. Default 1 s.
	CommitInterval time.Duration
	// CommitBytes is the number of dirty bytes that causes a commit before CommitInterval. At twice that number Apply
	// waits for the commit; see Collection.Backpressure. Default 4 MiB, or 32 MiB while each open collection has the
	// Residency All: frequent updates of an object are then written less often. Maximum 64 MiB.
	CommitBytes int
	// Logger logs quarantine, copies of the file and skipped objects. Its sink may be called during a write to the store:
	// it may read from the store, but must not wait for a write. Default: klog.Background().
	Logger *logr.Logger
	// Encryption seals the stored objects of some resources, Secrets by default. Default (nil): nothing is sealed, and
	// sealed collections cannot be opened (seal.ErrSealed).
	Encryption *seal.Encryption
	// Hooks are for tests of this module.
	Hooks *hook.Hooks

	// pageSize is the page size of new files in tests. Default defaultPageSize.
	pageSize int
	// atOnce makes Apply commit before it returns, in tests.
	atOnce bool
	// dropStep is the number of bytes of a dropped collection that one transaction removes in tests. Default 16 MiB.
	dropStep int
}

// defaultPageSize is the page size of new files, on every system; docs/adr/0006 has the figures.
const defaultPageSize = 4 << 10

func (o Options) newPageSize() int {
	if o.pageSize == 0 {
		return defaultPageSize
	}
	return o.pageSize
}

const defaultLockTimeout = time.Second

func (o Options) lockTimeout() time.Duration {
	if o.LockTimeout == 0 {
		return defaultLockTimeout
	}
	return max(o.LockTimeout, 0)
}

const defaultCommitInterval = time.Second

func (o Options) commitInterval() time.Duration {
	if o.CommitInterval <= 0 {
		return defaultCommitInterval
	}
	return o.CommitInterval
}

// CollectionOptions are the options of Store.Collection.
type CollectionOptions struct {
	// Codec encodes and decodes the objects. Required.
	Codec codec.Codec
	// KeyFunc returns an object's key. Default cache.DeletionHandlingMetaNamespaceKeyFunc.
	KeyFunc cache.KeyFunc
	// Indexers are the first index functions; Collection.AddIndexers adds more.
	Indexers cache.Indexers
	// IndexVersions are the versions of the index functions, by index name; see Interface.AddIndexers.
	IndexVersions map[string]string
	// Resource is stored in Info.Resource, for the command line.
	Resource entry.ResourceInfo
	// Residency says which objects are kept decoded in memory. Default All.
	Residency Residency
	// Compression of the objects in the file. Default NoCompression.
	Compression Compression
	// History is the maximum size of the history, an in-memory list of the latest changes, in bytes of keys and objects.
	// See Collection.History. Each change then reads the old object from the file. Default 0: no history.
	History int
	// Seal seals the collection even if Options.Encryption does not name its resource. The store must have keys.
	Seal bool
	// Committed is called after each attempt to commit changes of the collection, by the committing goroutine and under no
	// lock. It must not wait for a commit. May be nil.
	Committed func(Commit)
	// Decodes reports whether a handler will use the objects of changes at once. If it returns true, each batch decodes
	// its entry.Undecoded objects, on all cores, and leaves out undecodable ones. Otherwise an object is decoded on its
	// first use. Decodes must not block. Default: false. The Residency All always decodes at once.
	Decodes func() bool
	// Closing reports whether the owner of the collection is about to close it. Another call that opens the collection
	// then waits for the close instead of failing at once. Closing must not block. Default: false.
	Closing func() bool
	// Holder identifies the owner of the collection, in the CollectionOpenError of other calls that open the collection.
	// Informers use it to attach to the informer that has the collection open. May be nil.
	Holder any
}

// Store is one file of collections.
type Store struct {
	// open has the names of the open collections, and live the collections.
	open engine.Claims
	live liveSet

	o           Options
	file        *boltfile.File // file runs all transactions, by View and Update
	commits     *engine.CommitLoop
	limiter     *limiter.Limiter
	ending      ending
	keys        crypt.Ring
	opened      sync.Map // opened has the names of the collections opened for writing since Open; Prune keeps them
	plainLogged sync.Map // plainLogged has the names of the collections whose plain text was logged
	// verified is the time when Check last found no problem; nil if it never did.
	verified atomic.Pointer[time.Time]
}

// Path returns the file's name as it was given to Open.
func (s *Store) Path() string { return s.file.Path }

// Quarantined returns the name to which Open has moved a damaged file, or "" if the file was not damaged.
func (s *Store) Quarantined() string { return s.file.Quarantined() }

// ReadOnly reports whether the store was opened for reading only: every write fails with ErrReadOnly.
func (s *Store) ReadOnly() bool { return s.o.ReadOnly }

func (s *Store) logger() logr.Logger { return s.file.Logger() }

// Err returns the error because of which the store refuses all writes until it is closed and opened again. It wraps
// ErrDamaged or ErrOverwritten; on Windows, where an open file cannot be replaced, it may wrap ErrOutcomeUnknown. After
// damage the next Open copies the readable part of the file. While the store works Err returns nil.
func (s *Store) Err() error { return s.file.Err() }

// Failed returns a channel that is closed once Err is not nil, even if a reader has found the damage.
func (s *Store) Failed() <-chan struct{} { return s.file.Failed() }

// DamageFound returns a channel that is closed when a damaged record is next read. Reads of that key fail, and
// Info.MustRelist of its collection is MustRelistDamaged until the record is replaced; the store goes on.
func (s *Store) DamageFound() <-chan struct{} { return s.file.DamageFound() }

// MustRelistDamaged is Info.MustRelist of a collection that has damaged records, or has lost some, until it is listed.
const MustRelistDamaged = format.MustRelistDamaged

// MustRelistInterrupted is Info.MustRelist while only a part of a list's changes is visible, and after a crash then.
const MustRelistInterrupted = format.MustRelistInterrupted

// Check verifies the whole file: the branch pages, that each page is used once, the leaf pages, and the contents of the
// collections by their checksums. Damage of the branch pages ends the check. Check returns an error if the file cannot
// be read; problems of the file are in the report. One transaction reads the branch pages, about a hundredth of the
// file. Each further transaction reads about 1 MiB, and one at the end of each collection counts its objects.
// Concurrent writes are not reported as damage.
func (s *Store) Check(ctx context.Context) (Report, error) { return s.check(ctx, s.checked(0)) }

// checked returns the store's file for a check that reads at most rate bytes a second; 0 is no limit.
func (s *Store) checked(rate int) check.File {
	return check.File{File: s.file, Keys: &s.keys, Rate: rate}
}

func (s *Store) check(ctx context.Context, f check.File) (Report, error) {
	pages, err := check.Pages(ctx, f)
	if err != nil {
		return Report{}, fmt.Errorf("check %s: %w", s.file.Path, err)
	}
	if len(pages) > 0 {
		return Report{Problems: pages}, nil
	}
	r, err := check.Content(ctx, f)
	if err != nil {
		return Report(r), fmt.Errorf("check %s: %w", s.file.Path, err)
	}
	if len(r.Problems) == 0 {
		now := time.Now()
		s.verified.Store(&now)
	}
	return Report(r), nil
}

// Scrubbed returns when Check or Scrub last found no problem since the store was opened; zero if they never did. The
// time has a monotonic reading, so time.Since is right even if the clock was set in between.
func (s *Store) Scrubbed() time.Time {
	if at := s.verified.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Scrub checks the whole file, as Check does, but reads at most 64 MiB a second, apart from the branch pages. Damaged
// records are reported by DamageFound; other damage makes the store fail (Err, Failed).
func (s *Store) Scrub(ctx context.Context) error {
	f := s.checked(check.BackgroundRate)
	report, err := s.check(ctx, f)
	if err != nil || len(report.Problems) == 0 {
		return err
	}
	return f.ProblemError(report.Problems[0])
}

// Size returns the size of the file and of its free pages, in bytes. It reads only a few pages.
func (s *Store) Size() (total, free int64, err error) { return s.file.Size() }

// Written returns the number of bytes that this Store has written since it was opened: whole pages, as bbolt writes
// them, and copies of the file, as by Compact.
func (s *Store) Written() int64 { return s.file.Written() }

// Report is the result of Check.
type Report struct {
	// Collections and Objects are the numbers of checked collections and objects.
	Collections int
	Objects     int
	// IndexEntries is the number of checked index entries. Each entry must have its record, and each record its entries.
	IndexEntries int
	// Sealed is the number of objects that only had their checksums verified, since the store has no keys.
	Sealed int
	// LeftOut is the number of objects in Info.LeftOut, and LeftOutMore says whether more objects may have been left out.
	// The next informer fetches them again.
	LeftOut     int
	LeftOutMore bool
	// Problems has one line for each problem, with collection and key. Empty if the file is sound.
	Problems []string
}

// Errors of opening a file.
var (
	// ErrLocked says that another process, or another Store of this process, has locked the file.
	ErrLocked = boltfile.ErrLocked
	// ErrNewerFormat says that the file was written by a newer version of Larder.
	ErrNewerFormat = boltfile.ErrNewerFormat
	// ErrExists says that a file exists where a store was to be created. The file is left alone.
	ErrExists = boltfile.ErrExists
	// ErrForeign says that the file is not a store. The file is left alone.
	ErrForeign = boltfile.ErrForeign
)

// Errors of reading and writing.
var (
	// ErrClosed says that the store has been closed.
	ErrClosed = boltfile.ErrClosed
	// ErrReadOnly says that the store was opened for reading.
	ErrReadOnly = boltfile.ErrReadOnly
	// ErrNoSpace says that the disk, the quota or Options.MaxSize is full. Nothing was written; try again later.
	ErrNoSpace = boltfile.ErrNoSpace
	// ErrOutcomeUnknown says that a write or an fsync failed, and may have taken effect. The store goes on in memory, and
	// does not write to the file any more. The next attempt copies the file, and verifies the copy, as Compact does.
	ErrOutcomeUnknown = boltfile.ErrOutcomeUnknown
	// ErrReplaced says that the store's name now belongs to another file, for example a restored backup. The store leaves
	// that file alone and refuses writes; reads are served from memory and the old file. If the other file is moved away,
	// the store writes its contents under the name again. A restarted process opens the other file.
	ErrReplaced = boltfile.ErrReplaced
	// ErrOverwritten says that another file, such as an older copy, has been copied over the open file. Every transaction
	// checks for this, at least every ten seconds. After that the store neither reads nor writes the file. Close the
	// store, restore the right file, and open it again.
	ErrOverwritten = boltfile.ErrOverwritten
	// ErrStillWriting says that the caller has stopped waiting for a write that the disk has not finished, or for work
	// that waits for the write. The write goes on in the background, and this process keeps the file locked until it ends.
	ErrStillWriting = boltfile.ErrStillWriting
	// ErrSlowDisk says that a write has not returned for ten seconds. Changes are only in memory until it does.
	ErrSlowDisk = boltfile.ErrSlowDisk
	// ErrNoIndex says that there is no index of that name.
	ErrNoIndex = engine.ErrNoIndex
	// ErrReplacing says that a Replacement of the collection is open, so that other writes are refused.
	ErrReplacing = engine.ErrReplacing
)

func isDamaged(err error) bool { return errors.Is(err, entry.ErrDamaged) }

// Limiter returns the limiter that all informers of the store share, so that they connect and list in turn. One limiter
// suffices because a store is for one cluster (ErrOtherCluster).
func (s *Store) Limiter() *limiter.Limiter { return s.limiter }

// Work that holds the file's writer lock (boltfile.File.TakeWriter) for a long time.
var (
	compacting = boltfile.Work{What: "a compaction of the file", Long: true}
)
