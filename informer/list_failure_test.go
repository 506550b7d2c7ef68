package informer_test

import (
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/hook"
)

// TestListOutcomeUnknown checks that handlers get each change once although a list's commit may or may not have reached
// the file.
func TestListOutcomeUnknown(t *testing.T) {
	for name, inRelist := range map[string]bool{"cold start": false, "relist": true} {
		for when, after := range map[string]bool{"before the commit": false, "after it": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r := newRig(t)
					var fails atomic.Bool
					r.so.Hooks = &hook.Hooks{Commit: func(commit func() error) error {
						if !fails.Swap(false) {
							return commit()
						}
						if after {
							if err := commit(); err != nil {
								return err
							}
						}
						return syscall.EIO
					}}
					r.srv.write("a/1", "x")
					r.srv.write("a/2", "x")
					r.srv.write("a/3", "x")
					h := &recorder{}
					i := r.open()
					fails.Store(!inRelist)
					r.run(h)
					time.Sleep(time.Minute)
					synctest.Wait()
					r.srv.setFail(refuse)
					r.srv.disconnect()
					r.srv.write("a/1", "y")
					r.srv.delete("a/2")
					r.srv.write("a/4", "x")
					r.srv.compact()
					fails.Store(inRelist)
					r.srv.setFail(nil)
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					known := map[string]string{}
					replay(t, known, h.take())
					equal(t, "handler", sortedValues(known), r.srv.state())
					equal(t, "store", r.stored(), r.srv.state())
					if s := i.Status(); fails.Load() || s.Err != nil || s.Source != informer.Live {
						t.Errorf("failed %v, source %s, %v", !fails.Load(), s.Source, s.Err)
					}
					r.close()
				})
			})
		}
	}
}
