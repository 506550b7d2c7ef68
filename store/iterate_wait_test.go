package store_test

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/store"
)

// TestIterateWaitsForNoWrite checks that Iterate waits for objects to be loaded, but not for a hanging write.
func TestIterateWaitsForNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, t.TempDir()+"/store", store.Options{})
		g := store.GateCommits(s)
		c := openAs(t, s, store.All)
		mustList(t, c, 10)
		mustEnd(t, c)
		c, read := openSlowly(t, s)
		entered, release := g.Hold()
		written := make(chan error, 1)
		go func() { written <- c.SetMustRelist(t.Context(), "asked to") }()
		<-entered
		n, iterated := 0, make(chan error, 1)
		go func() {
			iterated <- c.Iterate(t.Context(), "", func(string, runtime.Object) error {
				n++
				return nil
			})
		}()
		synctest.Wait()
		read()
		if err := <-iterated; err != nil || n != 10 {
			t.Errorf("%d objects, %v", n, err)
		}
		release()
		if err := <-written; err != nil {
			t.Error(err)
		}
		wantInMemory(t, c, "namespace-0/pod-0000")
		mustClose(t, s)
	})
}
