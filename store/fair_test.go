package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestCommitsAreNotStarved checks that a collection that writes without pause does not delay commits for ever: a commit
// runs after the write in progress and the next waiting write.
func TestCommitsAreNotStarved(t *testing.T) {
	for name, work := range map[string]func(t *testing.T, c *store.Collection, ended func() bool){
		"indexes": func(t *testing.T, c *store.Collection, ended func() bool) {
			for n := 0; !ended(); n++ {
				if err := c.AddIndexers(context.Background(), cache.Indexers{fmt.Sprint(n): cache.MetaNamespaceIndexFunc},
					nil); err != nil {
					t.Error(err)
				}
				store.WaitBuilds(c)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stepping, end atomic.Bool
				step := make(chan struct{})
				o := byHand()
				o.Hooks = &hook.Hooks{Commit: func(commit func() error) error {
					if stepping.Load() {
						<-step
					}
					return commit()
				}}
				s := storetest.OpenFile(t, filepath.Join(t.TempDir(), "larder.db"), o)
				busy := openPodsIn(t, s, "busy")
				if name == "indexes" { // building an index of an empty collection writes nothing
					apply(t, busy, "1", upsert("busy/0", "1"))
				}
				others := make([]*store.Collection, 30)
				for n := range others {
					others[n] = openPodsIn(t, s, fmt.Sprintf("ns-%d", n))
				}
				flush(t, s)
				stepping.Store(true)
				done := make(chan struct{})
				go func() {
					defer close(done)
					work(t, busy, end.Load)
				}()
				for n, c := range others {
					synctest.Wait()
					apply(t, c, "1", upsert(fmt.Sprintf("ns-%d/x", n), "1"))
					go func() {
						if err := s.Flush(context.Background()); err != nil {
							t.Error(err)
						}
					}()
					synctest.Wait()
					writes := 0
					for ; s.Pending() > 0; writes++ {
						step <- struct{}{}
						synctest.Wait()
					}
					if writes > 3 {
						t.Errorf("the commit came after %d others", writes-1)
					}
				}
				end.Store(true)
				stepping.Store(false)
				close(step)
				<-done
			})
		})
	}
}
