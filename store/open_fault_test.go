package store_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// memoryFault is the runtime's panic value for a fault in a mapped page.
type memoryFault struct{}

func (memoryFault) Error() string { return "unexpected fault address" }
func (memoryFault) Addr() uintptr { return 0xdead }

// TestFaultWhileOpening checks that a good store is not moved aside when its disk fails for a moment during Open.
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
