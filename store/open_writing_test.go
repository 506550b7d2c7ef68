package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/store"
)

// TestOpenWhileWriting checks that opening a new collection waits for the writer lock no longer than its context.
// Opening a collection that is already in the file does not wait, because a write may hang in the disk for ever.
func TestOpenWhileWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, g := gated(store.Options{Logger: &quiet})
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
		known := mustOpenPods(t, s, "known")
		mustEnd(t, mustOpenPods(t, s, "closed"))
		_, release := g.Hold()
		done := make(chan error)
		go func() { done <- known.RetainChanges(t.Context(), time.Hour) }()
		synctest.Wait()
		mustEnd(t, mustOpenPods(t, s, "closed"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		id := pods()
		id.Namespace = "new"
		want, begun := "a write of "+known.Identity().String()+" has held the writer lock for 1m0s", time.Now()
		_, err := s.Collection(ctx, id, store.CollectionOptions{Codec: mustCodec(t, somePod(0))})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) ||
			time.Since(begun) != time.Minute {
			t.Errorf("%v after %v, want %q", err, time.Since(begun), want)
		}
		release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		mustEnd(t, mustOpenPods(t, s, "closed"))
		mustEnd(t, known)
		mustClose(t, s)
	})
}
