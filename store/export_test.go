package store

import (
	"context"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/check"
)

// The external tests of this package reach unexported state only through this file. A rewrite of the internals has to
// provide the same functions.

// ViewFile runs fn in a read transaction of the open file, for tests that inspect stored bytes.
func ViewFile(ctx context.Context, s *Store, fn func(tx *bolt.Tx) error) error {
	return s.file.View(ctx, fn)
}

// UpdateFile runs fn in a write transaction like the store's own writes, for tests that damage the file.
func UpdateFile(ctx context.Context, s *Store, fn func(tx *bolt.Tx) error) error {
	return s.file.Update(ctx, boltfile.Upkeep, fn)
}

func StoreOf(c *Collection) *Store { return c.store }

// GateCommits makes all commits of s pass the returned gate, with which a test simulates a disk that fails, is full or
// hangs. Options.Hooks.Commit does that for a new store.
func GateCommits(s *Store) *hook.Gate {
	g := &hook.Gate{}
	s.file.Commit = g.Commit
	return g
}

// TakeWriter blocks all writes until release is called, for tests of waiting writers and of calls that must not wait.
func TakeWriter(s *Store) (release func(), err error) {
	return s.file.TakeWriter(context.Background(), boltfile.Work{What: "a test"})
}

// OnRelease sets a function that is called whenever a writer is about to release the writer lock; nil removes it.
func OnRelease(s *Store, fn func()) { s.file.OnRelease = fn }

// WaitBackground waits until the background work of s has ended, except the check of the file's identity.
func WaitBackground(s *Store) { s.file.WaitBackground(1) } // the check of the identity never ends

func handleOf(s *Store) (h *boltfile.Handle) {
	err := s.file.ViewHandle(context.Background(), func(now *boltfile.Handle, _ *bolt.Tx) error {
		h = now
		return nil
	})
	if err != nil {
		panic(err)
	}
	return h
}

// LookAt makes s verify the file f instead of its own before it reads the mapping. That simulates a truncation between
// the check and the read. stuck reports whether bbolt then keeps a lock for ever; restore ends the simulation.
func LookAt(s *Store, f *os.File) (stuck func() bool, restore func()) {
	h := handleOf(s)
	own := h.File
	h.File = f
	return h.Stuck.Load, func() { h.File = own }
}

// NoSync turns off fsync, for tests that commit often and never crash.
func NoSync(s *Store) {
	db := handleOf(s).DB
	tx, err := db.Begin(true) // bbolt reads its NoSync field in write transactions, so the field is changed inside one
	if err != nil {
		panic(err)
	}
	db.NoSync = true
	_ = tx.Rollback()
}

// NoSyncImport turns off fsync for the store that an Import writes.
func NoSyncImport(i *Import) { NoSync(i.store) }

// AtOnce returns o changed so that Apply commits before it returns.
func AtOnce(o Options) Options {
	o.atOnce = true
	return o
}

// Every returns o with the given CommitInterval. A negative interval makes Apply commit before it returns.
func Every(o Options, interval time.Duration) Options {
	o.CommitInterval, o.atOnce = max(interval, 0), interval < 0
	return o
}

// WithPageSize returns o with the page size of new files, for tests of files from systems with other page sizes.
func WithPageSize(o Options, size int) Options {
	o.pageSize = size
	return o
}

// WithDropStep returns o for a store whose Drop removes that many bytes in a transaction.
func WithDropStep(o Options, bytes int) Options {
	o.dropStep = bytes
	return o
}

// SetMaxSize changes Options.MaxSize of an open store, for tests of a disk that is full and then has space.
func SetMaxSize(s *Store, bytes int64) { s.file.MaxSize = bytes }

// SetDirtyLimit sets the limit of dirty bytes above which Apply waits.
func SetDirtyLimit(s *Store, bytes int) { s.commits.Limit = bytes }

// SetLimits sets how many bytes of changes a list of c holds back until its Commit, and how many bytes one call of
// Replacement.Commit returns. With small limits a list of few objects behaves like a large list.
func SetLimits(c *Collection, held, step int) {
	c.core.Limits.Held, c.core.Limits.Step = held, step
}

// CommitLimit returns the number of bytes that one call of Replacement.Commit returns.
func CommitLimit(c *Collection) int { return c.core.Limits.Step }

// SetTombstoneLimit sets the maximum number of tombstones that c keeps.
func SetTombstoneLimit(c *Collection, n int) { c.core.Tombstones = n }

// SetSampling sets the size of c's compression dictionaries and of the samples from which they are built.
func SetSampling(c *Collection, dictionary, sample int) {
	c.core.Compressor.DictBytes, c.core.Compressor.SampleBytes = dictionary, sample
}

// WaitBuilds starts the build of c's indexes, and returns once no index is being built.
func WaitBuilds(c *Collection) {
	c.BuildIndexes()
	c.core.Workers.Wait()
}

func IndexReady(c *Collection, index string) bool { return c.core.Set.Load().Ready(index) }

// CheckContent verifies the contents of the file like Store.Check, but not its pages, for speed.
func CheckContent(ctx context.Context, s *Store) (Report, error) {
	r, err := check.Content(ctx, s.checked(0))
	return Report(r), err
}
