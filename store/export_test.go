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

// What tests of this package reach of its inside, all of it. Each line says what needs it; whoever builds the inside
// anew has to provide the same.

// ViewFile runs fn in a read transaction of the file that s has open: what the file holds, a record, an index entry, a
// key, is looked at there (internal/storetest/disk knows where), while the store is in use.
func ViewFile(ctx context.Context, s *Store, fn func(tx *bolt.Tx) error) error {
	return s.file.View(ctx, fn)
}

// UpdateFile is ViewFile for a write, which goes the way of the store's own: damage that is found while the file is in
// use, and how a write of the store ends whatever it writes.
func UpdateFile(ctx context.Context, s *Store, fn func(tx *bolt.Tx) error) error {
	return s.file.Update(ctx, boltfile.Upkeep, fn)
}

// StoreOf returns the store of a collection, for helpers that are given collections.
func StoreOf(c *Collection) *Store { return c.store }

// GateCommits puts a gate before every commit of s: a disk that fails, is full or does not answer. It is
// Options.Hooks.Commit for a store that is open.
func GateCommits(s *Store) *hook.Gate {
	g := &hook.Gate{}
	s.file.Commit = func(tx *bolt.Tx) error { return g.Commit(tx.Commit) }
	return g
}

// TakeWriter keeps everybody else from writing until release is called: what must not wait for a write, and who comes
// first of those that wait.
func TakeWriter(s *Store) (release func(), err error) {
	return s.file.TakeWriter(context.Background(), boltfile.Work{What: "a test"})
}

// OnRelease has fn called whenever a writer has done its part and is about to let the next one write; nil ends that.
func OnRelease(s *Store, fn func()) { s.file.OnRelease = fn }

// WaitBackground waits until s verifies no pages any more, and does nothing else in the background.
func WaitBackground(s *Store) { s.file.WaitBackground(1) } // VerifyIdentity goes on

// handleOf returns the file that s has open now.
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

// LookAt makes s look at f, in place of its own file, before it goes to the mapping: its file is cut short between the
// look and the read. stuck reports whether bbolt has kept a lock for ever then.
func LookAt(s *Store, f *os.File) (stuck func() bool, restore func()) {
	h := handleOf(s)
	own := h.File
	h.File = f
	return h.Stuck.Load, func() { h.File = own }
}

// NoSync leaves out the fsyncs, for tests that commit often and never crash.
func NoSync(s *Store) {
	db := handleOf(s).DB
	tx, err := db.Begin(true) // whoever commits reads it
	if err != nil {
		panic(err)
	}
	db.NoSync = true
	_ = tx.Rollback()
}

// NoSyncImport is NoSync for the store that is being made.
func NoSyncImport(i *Import) { NoSync(i.store) }

// AtOnce returns o for a store whose Apply commits before it returns.
func AtOnce(o Options) Options {
	o.atOnce = true
	return o
}

// Every returns o with that CommitInterval; below zero it is that of AtOnce.
func Every(o Options, interval time.Duration) Options {
	o.CommitInterval, o.atOnce = max(interval, 0), interval < 0
	return o
}

// WithPageSize returns o for a file of that page size: those that bbolt makes on other systems.
func WithPageSize(o Options, size int) Options {
	o.pageSize = size
	return o
}

// WithDropStep returns o for a store that removes a dropped collection in steps of so many bytes: drops of many steps,
// of small collections.
func WithDropStep(o Options, bytes int) Options {
	o.dropStep = bytes
	return o
}

// SetMaxSize changes Options.MaxSize of an open store: a disk that is full, and then is not.
func SetMaxSize(s *Store, bytes int64) { s.file.MaxSize = bytes }

// SetPendingLimit makes those who write wait once so many bytes are pending.
func SetPendingLimit(s *Store, bytes int) { s.commits.Limit = bytes }

// SetLimits makes relists of c show what is more than held bytes, and apply about as many bytes as step a step: a list
// that is larger than memory, of few objects.
func SetLimits(c *Collection, held, step int) {
	c.in.Limits.Held, c.in.Limits.Step = held, step
}

// CommitLimit returns about how many bytes a step of the end of a relist of c applies.
func CommitLimit(c *Collection) int { return c.in.Limits.Step }

// SetTombstoneLimit makes c keep so many tombstones that a handler has not passed.
func SetTombstoneLimit(c *Collection, n int) { c.tombstones = n }

// SetSampling makes c compress with dictionaries of so many bytes, as soon as there are sample bytes to make one of:
// compression, of few objects.
func SetSampling(c *Collection, dictionary, sample int) {
	c.compressor.DictBytes, c.compressor.SampleBytes = dictionary, sample
}

// WaitBuilds returns once no index of c is being built.
func WaitBuilds(c *Collection) {
	c.BuildIndexes()
	c.workers.Wait()
}

// IndexReady reports whether look-ups in the index need not wait for its build.
func IndexReady(c *Collection, index string) bool { return c.in.Set.Load().Ready(index) }

// CheckContent is the part of Store.Check that looks at the contents: models check after every step.
func CheckContent(ctx context.Context, s *Store) (Report, error) {
	r, err := check.Content(ctx, s.checked(0))
	return Report(r), err
}
