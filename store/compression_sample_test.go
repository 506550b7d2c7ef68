package store_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/larder-dev/larder/store"
)

// TestFailedWritesAreSampledOnce checks that a retried write counts as one sample for the compression dictionary.
func TestFailedWritesAreSampledOnce(t *testing.T) {
	noSpace := func() error { return syscall.ENOSPC }
	for name, test := range map[string]struct {
		interval time.Duration
		before   func(t *testing.T, c *store.Collection)
		try      func(t *testing.T, c *store.Collection) error
	}{
		"Commit": {time.Hour, func(t *testing.T, c *store.Collection) {
			if err := applyPod(t, c, podAt(0, "2000")); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, c *store.Collection) error { return store.StoreOf(c).Flush(t.Context()) }},
		"Apply": {-1, func(*testing.T, *store.Collection) {},
			func(t *testing.T, c *store.Collection) error { return applyPod(t, c, podAt(0, "2000")) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, t.TempDir()+"/store", store.Every(store.Options{}, test.interval))
			g := store.GateCommits(s)
			c := openCompressed(t, s, store.Zstd)
			store.SetSampling(c, 1<<10, 1<<10) // a dictionary is built once the samples have the size of about three pods
			test.before(t, c)
			g.Fail(noSpace)
			for range 10 {
				if err := test.try(t, c); !errors.Is(err, store.ErrNoSpace) {
					t.Fatal(err)
				}
			}
			g.Fail(nil)
			if err := test.try(t, c); err != nil {
				t.Fatal(err)
			}
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, _, dicts := compressionOf(t, c); dicts != 0 {
				t.Errorf("there is a dictionary of one object, or two")
			}
			for i := 2; i < 12; i++ {
				if err := errors.Join(applyPod(t, c, podAt(i, "3000")), s.Flush(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, dicts := compressionOf(t, c); dicts == 0 {
				t.Error("there is no dictionary of ten objects")
			}
			mustClose(t, s)
		})
	}
}
