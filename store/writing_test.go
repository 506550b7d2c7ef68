package store

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
)

// TestOpenWhileWriting: who opens a collection waits for the writer no longer than its context lasts, and is told who that is. For one that is in the file already
// nobody is waited for but a rebuild: the disk may not finish what another one writes.
func TestOpenWhileWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{})
		known := mustOpenPods(t, s, "known")
		mustEnd(t, mustOpenPods(t, s, "closed"))
		finish := make(chan struct{})
		write := func(fn func(tx *bolt.Tx) error) error { return known.update(t.Context(), fn) }
		rebuild := func(fn func(tx *bolt.Tx) error) error {
			release, err := s.takeWriter(t.Context(), rebuilding)
			if err != nil {
				return err
			}
			defer release()
			s.setExchanging(true)
			defer s.setExchanging(false)
			return fn(nil)
		}
		for want, hold := range map[string]func(func(tx *bolt.Tx) error) error{
			"a write of " + known.id.String() + " has had the writer's place for 1m0s": write,
			"a rebuild of the file has had the writer's place for 1m0s":                rebuild,
		} {
			done := make(chan error)
			go func() { done <- hold(func(*bolt.Tx) error { <-finish; return nil }) }()
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
				_, err := s.Collection(ctx, id, CollectionOptions{Codec: mustCodec(t, somePod(0))})
				if name == "closed" {
					want = strings.Replace(want, "1m0s", "2m0s", 1)
				}
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) || time.Since(begun) != time.Minute {
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
