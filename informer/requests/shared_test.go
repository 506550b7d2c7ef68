package requests_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/informer/internal/shared"
	"github.com/larder-dev/larder/informer/requests"
)

// TestSharedIdentity checks that informers that connect together share one read of the cluster's id, and that an
// informer that has lost its connection does not use an earlier answer. Issue 38.
func TestSharedIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		id := requests.ClusterID(func(context.Context) (string, error) {
			reads.Add(1)
			time.Sleep(time.Millisecond)
			return "uid", nil
		})
		together := func(lost time.Time, want int32) {
			t.Helper()
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					ctx, _ := shared.Ask(t.Context(), lost)
					if got, err := id(ctx); got != "uid" || err != nil {
						t.Errorf("read %q, %v", got, err)
					}
				})
			}
			wg.Wait()
			if n := reads.Swap(0); n != want {
				t.Errorf("%d requests, want %d", n, want)
			}
		}
		together(time.Time{}, 1)
		together(time.Time{}, 0)
		time.Sleep(time.Second)
		together(time.Now(), 1)
		time.Sleep(time.Minute)
		together(time.Time{}, 1)
	})
}
