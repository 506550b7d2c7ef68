package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// memoryFault is what the runtime panics with when a mapped page can not be read.
type memoryFault struct{}

func (memoryFault) Error() string { return "unexpected fault address" }
func (memoryFault) Addr() uintptr { return 0xdead }

// TestFaultWhileOpening: the disk does not answer for a moment while a good store is being
// opened. The store stays where it is.
func TestFaultWhileOpening(t *testing.T) {
	path, all := populated(t, true)
	s := newStore(path, Options{Logger: &quiet})
	s.hooks.commit = func(*bolt.Tx) error { panic(memoryFault{}) }
	if err := s.openToWrite(context.Background(), time.Now()); err == nil || errors.Is(err, entry.ErrDamaged) {
		t.Errorf("open: %v", err)
	}
	wantNames(t, filepath.Dir(path), filepath.Base(path))
	s = mustOpen(t, path, Options{})
	if got, err := readAll(s); err != nil || len(got) != len(all) || s.Quarantined() != "" {
		t.Errorf("%d of %d entries, moved to %q: %v", len(got), len(all), s.Quarantined(), err)
	}
	mustClose(t, s)
}

// TestJudge: what bbolt takes for damage is damage if a look without it says so.
func TestJudge(t *testing.T) {
	good, _ := populated(t, true)
	bad, _ := populated(t, true)
	if err := os.Truncate(bad, int64(scaled(64<<10))); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	fault, panicked := &faultError{what: memoryFault{}}, &faultError{what: "page 7 makes no sense"}
	for _, c := range []struct {
		path    string
		err     error
		damaged bool
	}{
		{good, fault, false},
		{good, berrors.ErrInvalid, false}, // which is also what bbolt makes of a failed read
		{good, panicked, true},            // bbolt can not use it
		{bad, fault, true},
		{bad, berrors.ErrInvalid, true},
		{missing, fault, false}, // nobody could look
		{missing, panicked, false},
		{good, os.ErrPermission, false},
	} {
		o := &opening{path: c.path}
		if err := o.judge(c.err); err == nil || errors.Is(err, entry.ErrDamaged) != c.damaged {
			t.Errorf("%v of %s: %v", c.err, filepath.Base(c.path), err)
		}
	}
}
