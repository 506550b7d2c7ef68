package store_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// memoryFault is what the runtime panics with when a mapped page cannot be read.
type memoryFault struct{}

func (memoryFault) Error() string { return "unexpected fault address" }
func (memoryFault) Addr() uintptr { return 0xdead }

// TestFaultWhileOpening: the disk does not answer for a moment while a good store is being
// opened. The store stays where it is.
func TestFaultWhileOpening(t *testing.T) {
	path, all := populated(t, true)
	o, g := gated(store.Options{Logger: &quiet})
	g.Fail(func() error { panic(memoryFault{}) })
	if s, err := store.Open(path, o); s != nil || err == nil || errors.Is(err, entry.ErrDamaged) {
		t.Errorf("open: %v", err)
	}
	wantNames(t, filepath.Dir(path), filepath.Base(path))
	s := mustOpen(t, path, store.Options{})
	if got, err := readAll(s); err != nil || len(got) != len(all) || s.Quarantined() != "" {
		t.Errorf("%d of %d entries, moved to %q: %v", len(got), len(all), s.Quarantined(), err)
	}
	mustClose(t, s)
}
