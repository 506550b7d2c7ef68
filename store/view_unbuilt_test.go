package store_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestViewOfAnUnbuiltIndex checks that a View returns an error, not a partial result.
func TestViewOfAnUnbuiltIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := storetest.Open(t, byHand())
		c := openPods(t, s, nil)
		relist(t, c, store.ReplaceOptions{}, "2", upsert("a/x", "1"), upsert("a/y", "2"))
		proceed, added := make(chan struct{}), make(chan error, 1)
		go func() {
			added <- c.AddIndexers(ctx, cache.Indexers{"slow": func(any) ([]string, error) {
				<-proceed
				return []string{"one"}, nil
			}}, map[string]string{"slow": "1"})
		}()
		synctest.Wait()
		view, err := s.ViewWith(ctx, storetest.Pods, storetest.PodCodec())
		if err != nil {
			t.Fatal(err)
		}
		if keys, err := view.IndexKeys(ctx, "slow", "one"); !errors.Is(err, store.ErrNoIndex) {
			t.Errorf("while it is being built: %q, %v; want ErrNoIndex", keys, err)
		}
		close(proceed)
		if err := <-added; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		keys, err := view.IndexKeys(ctx, "slow", "one")
		if err != nil {
			t.Error(err)
		}
		wantStrings(t, "once it has been built", keys, "a/x", "a/y")
	})
}
