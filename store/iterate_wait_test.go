package store

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime"
)

// Iterate waits for objects to be read, and not for a write that has the disk meanwhile.
func TestIterateWaitsForNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, t.TempDir()+"/store", Options{})
		g := GateCommits(s)
		c := openAs(t, s, All)
		mustList(t, c, 10)
		entered, release := g.Hold()
		written := make(chan error, 1)
		go func() { written <- c.SetMustRelist(t.Context(), "asked to") }()
		<-entered
		c.startFilling()
		n, iterated := 0, make(chan error, 1)
		go func() {
			iterated <- c.Iterate(t.Context(), "", func(string, runtime.Object) error {
				n++
				return nil
			})
		}()
		if err := <-iterated; err != nil || n != 10 {
			t.Errorf("%d objects, %v", n, err)
		}
		release()
		if err := <-written; err != nil {
			t.Error(err)
		}
		if err := c.WaitResident(t.Context()); err != nil || c.inMemory() == nil {
			t.Errorf("%v; in memory %v", err, c.inMemory() != nil)
		}
		mustClose(t, s)
	})
}
