package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/format"
)

func eachPageSize(t *testing.T, test func(t *testing.T, path string, pageSize int)) {
	for _, size := range []int{4 << 10, 16 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { test(t, fileWithBranches(t, size), size) })
	}
}

// fileWithBranches makes a file with two levels of branch pages, and closes it cleanly.
func fileWithBranches(t *testing.T, pageSize int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store")
	f := New(path, Options{PageSize: pageSize})
	if err := f.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := f.Update(t.Context(), Upkeep, func(tx *bolt.Tx) error {
		b, err := tx.Bucket(format.BucketLarder).CreateBucket([]byte("test"))
		if err != nil {
			return err
		}
		if b, err = b.CreateBucket(format.BucketObjects); err != nil {
			return err
		}
		for i := range 6000 {
			if err := b.Put(fmt.Appendf(nil, "a-name-as-long-as-that-of-a-pod-%06d", i), make([]byte, pageSize/14)); err != nil {
				return err
			}
		}
		return nil
	})
	f.CloseBackground()
	_, closed := f.Close()
	if err := errors.Join(err, closed); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustPages(t *testing.T, path string, change func(data []byte, pages *boltcheck.File)) (*boltcheck.File, []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := boltcheck.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(data, pages)
	}
	return pages, data
}

// fault is the runtime's panic value for an unreadable mapped page.
type fault struct{}

func (fault) Error() string { return "unexpected fault address" }
func (fault) Addr() uintptr { return 0xdead }

// TestJudge checks which failures of bbolt count as damage (ErrDamaged): failures for which a verification without
// bbolt also finds damage, and panics of bbolt on a file without any problem.
func TestJudge(t *testing.T) {
	eachPageSize(t, func(t *testing.T, good string, pageSize int) {
		bad := fileWithBranches(t, pageSize)
		if err := os.Truncate(bad, int64(16*pageSize)); err != nil {
			t.Fatal(err)
		}
		missing := filepath.Join(t.TempDir(), "missing")
		fault, panicked := &FaultError{What: fault{}}, &FaultError{What: "page 7 makes no sense"}
		for _, c := range []struct {
			path    string
			err     error
			damaged bool
		}{
			{good, fault, false},
			{good, berrors.ErrInvalid, false}, // bbolt also returns ErrInvalid for a failed read.
			{good, panicked, true},            // A file on which bbolt panics is unusable.
			{bad, fault, true},
			{bad, berrors.ErrInvalid, true},
			{bad, berrors.ErrVersionMismatch, true},
			{bad, berrors.ErrChecksum, true},
			{missing, fault, false}, // A missing file cannot be verified, so the fault does not count as damage.
			{missing, panicked, false},
			{good, os.ErrPermission, false},
		} {
			o := &opening{Path: c.path}
			if err := o.judge(c.err); err == nil || errors.Is(err, entry.ErrDamaged) != c.damaged {
				t.Errorf("%v of %s: %v", c.err, filepath.Base(c.path), err)
			}
		}
		if err := (&opening{Path: good}).judge(berrors.ErrTimeout); !errors.Is(err, ErrLocked) {
			t.Errorf("a lock that bbolt does not get: %v", err)
		}
	})
}

// TestOpenReportsDamageInPartialWalk checks that Open reports damage that it found before the verification ended early.
func TestOpenReportsDamageInPartialWalk(t *testing.T) {
	eachPageSize(t, func(t *testing.T, path string, pageSize int) {
		branches := 0
		pages, _ := mustPages(t, path, func(data []byte, pages *boltcheck.File) {
			for id := uint64(2); id < pages.HighWater; id++ {
				page := data[id*uint64(pageSize):][:pageSize]
				if pages.IsFree(id) || binary.NativeEndian.Uint64(page) != id || binary.NativeEndian.Uint16(page[8:]) != 1 {
					continue
				}
				branches++
				copy(page[16+8:16+16], page[:8]) // The first entry of the branch page points to the page itself.
			}
		})
		reported, ended := 0, 0
		for budget := 0; budget <= branches+4; budget++ {
			o := opening{Path: path, branchBytes: budget * pageSize}
			err := o.walkBranches(pages, true)
			if o.Unseen {
				ended++
			}
			if errors.Is(err, entry.ErrDamaged) {
				reported++
			} else if reported > 0 {
				t.Errorf("a budget of %d pages: %v, although less was enough", budget, err)
			}
		}
		if reported == 0 || ended == 0 {
			t.Errorf("reported %d times, ended early %d times", reported, ended)
		}
	})
}

// TestOpenReadsABoundedPart checks that Open verifies at most branchBytes of a cleanly closed file.
func TestOpenReadsABoundedPart(t *testing.T) {
	eachPageSize(t, func(t *testing.T, path string, _ int) {
		pages, data := mustPages(t, path, nil)
		for _, clean := range []bool{true, false} {
			for _, bytes := range []int{0, len(data)} {
				o := opening{Path: path, branchBytes: bytes}
				if err := o.walkBranches(pages, clean); err != nil || o.Unseen != (clean && bytes == 0) {
					t.Errorf("clean %t, %d bytes: unseen %t, %v", clean, bytes, o.Unseen, err)
				}
			}
		}
	})
}
