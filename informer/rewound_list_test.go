package informer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/informer"
)

// TestListOfARewoundServer checks that a list for any reason compares whole objects, not only resourceVersions, because
// the server may have been rewound meanwhile.
func TestListOfARewoundServer(t *testing.T) {
	for _, lost := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			again := lose(r.srv, 3)
			i := r.start()
			if !lost {
				if err := informer.Store(i).SetMustRelist(t.Context(),
					"a relist was interrupted while its changes were being applied"); err != nil {
					t.Fatal(err)
				}
			}
			r.close()
			again(2)
			for range 5 {
				r.srv.write("b/beyond", "y")
			}
			if lost {
				r.srv.compact()
			}
			i = r.start()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			equal(t, "store", r.stored(), r.srv.state())
			t.Logf("history lost: %v, relists %v", lost, i.Status().Reflector.Relists)
			r.close()
		})
	}
}
