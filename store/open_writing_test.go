package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/larder-dev/larder/store"
)

// TestOpenWhileWriting checks that opening a new collection waits for the writer lock no longer than its context.
// Opening a collection that is already in the file waits only for a rebuild, because a write may hang in the disk for
// ever.
func TestOpenWhileWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		anew := funcr.New(func(_, args string) {
			if strings.Contains(args, "written anew") {
				<-finish
			}
		}, funcr.Options{})
		o, g := gated(store.Options{Logger: &anew})
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
		known := mustOpenPods(t, s, "known")
		mustEnd(t, mustOpenPods(t, s, "closed"))
		const rebuilding = "a rebuild of the file"
		write := func() error {
			_, release := g.Hold()
			go func() { <-finish; release() }()
			return known.RetainChanges(t.Context(), time.Hour)
		}
		rebuild := func() error {
			failNow(t, s)
			return s.Rebuild(t.Context())
		}
		for _, by := range []struct {
			what string
			hold func() error
		}{{"a write of " + known.Identity().String(), write}, {rebuilding, rebuild}} {
			want := by.what + " has held the writer lock for 1m0s"
			done := make(chan error)
			go func() { done <- by.hold() }()
			synctest.Wait()
			waits := []string{"new", "closed"}
			if !strings.Contains(want, rebuilding) {
				mustEnd(t, mustOpenPods(t, s, "closed"))
				waits = waits[:1]
			}
			for _, name := range waits {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				id := pods()
				id.Namespace = name
				begun := time.Now()
				_, err := s.Collection(ctx, id, store.CollectionOptions{Codec: mustCodec(t, somePod(0))})
				if name == "closed" {
					want = strings.Replace(want, "1m0s", "2m0s", 1)
				}
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) ||
					time.Since(begun) != time.Minute {
					t.Errorf("%s: %v after %v, want %q", name, err, time.Since(begun), want)
				}
				cancel()
			}
			finish <- struct{}{}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		mustEnd(t, mustOpenPods(t, s, "closed"))
		mustEnd(t, known)
		mustClose(t, s)
	})
}
