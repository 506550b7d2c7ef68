package informer_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// TestListOutcomeUnknown: a write of a list fails and has taken effect all the same, so the next list finds no difference.
// The handlers hear of everything.
func TestListOutcomeUnknown(t *testing.T) {
	for name, skip := range map[string]int{"page of a cold start": 1, "end of a cold start": 2, "end of a relist": 5} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.write("a/1", "x")
				r.srv.write("a/2", "x")
				r.srv.write("a/3", "x")
				h := &recorder{}
				i := r.open()
				f := &faultyStore{Interface: informer.Store(i), skip: skip}
				f.set(store.ErrOutcomeUnknown, 1, true)
				informer.SetStore(i, f)
				informer.SetRebuild(i, func(context.Context) error { return nil })
				r.run(h)
				time.Sleep(time.Minute)
				synctest.Wait()
				r.srv.setFail(refuse)
				r.srv.disconnect()
				r.srv.write("a/1", "y")
				r.srv.delete("a/2")
				r.srv.write("a/4", "x")
				r.srv.compact()
				r.srv.setFail(nil)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				known := map[string]string{}
				for _, line := range h.take() {
					tellAgain(known, line)
				}
				equal(t, "handler", sortedValues(known), r.srv.state())
				if f.failed() != 1 {
					t.Errorf("%d failures", f.failed())
				}
				r.close()
			})
		})
	}
}

// tellAgain replays a line of a recorder that may have been told before.
func tellAgain(known map[string]string, line string) {
	words := strings.Fields(line)
	switch words[0] {
	case "gone", "delete":
		key, _, _ := strings.Cut(words[1], "@")
		delete(known, key)
	default:
		now := words[1]
		if words[0] == "update" {
			now = words[3]
		}
		key, _, _ := strings.Cut(now, "@")
		known[key] = now
	}
}
