package informer_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/hook"
)

// TestContradictionBesideAnExpiredList checks that a stored reason for a list of whole objects survives a list that
// compares only resourceVersions. The process ends in each of the commits that follow.
func TestContradictionBesideAnExpiredList(t *testing.T) {
	for n := range int64(8) {
		t.Run(fmt.Sprintf("commit %d", n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				var left atomic.Int64
				r.so.Hooks = &hook.Hooks{Commit: func(commit func() error) error {
					if left.Add(-1) == 0 {
						r.cancel()
						time.Sleep(100 * time.Millisecond)
					}
					return commit()
				}}
				for k := range 40 {
					r.srv.write(fmt.Sprintf("a/%02d", k), "x")
				}
				r.start()
				if err := r.st.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.restoreQuietly()
				informer.Deltas(r.i).Lock() // the process loop needs this mutex to apply events
				r.srv.write("a/lost", "y")
				synctest.Wait()
				r.srv.setSilent(true)
				r.srv.write("a/more", "x")
				r.srv.setSilent(false)
				r.srv.compact()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				left.Store(n + 1)
				informer.Deltas(r.i).Unlock()
				time.Sleep(3 * time.Second)
				synctest.Wait()
				r.close()
				left.Store(0)
				r.start()
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				equal(t, "store", r.stored(), r.srv.state())
				r.close()
			})
		})
	}
}

// restoreQuietly simulates a server that was restored from a backup. One object has other contents under its UID and
// resourceVersion, and one object was created without an event.
func (r *rig) restoreQuietly() {
	r.srv.mu.Lock()
	other := r.srv.pods["a/00"].DeepCopy()
	other.Labels["value"] = "other"
	r.srv.pods["a/00"] = other
	r.srv.mu.Unlock()
	r.srv.setSilent(true)
	r.srv.write("a/lost", "x")
	r.srv.setSilent(false)
}
