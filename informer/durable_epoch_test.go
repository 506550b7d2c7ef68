package informer_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer/durable"
)

// TestDurableKeysDoneBeforeAReset checks durable keys whose work began before a damaged record was replaced, which
// resets the handler. The old work must not acknowledge the change that the handler receives after the reset.
func TestDurableKeysDoneBeforeAReset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 5 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		due := &dueKeys{}
		keys := r.startKeys(due)
		r.srv.write("a/0", "y")
		r.waitIdle()
		begun := keys.Begin(cache.NewObjectName("a", "0"))
		due.take()

		r.damage("a/0")
		time.Sleep(time.Minute)
		synctest.Wait()
		r.waitIdle()
		for _, key := range due.take() {
			if name, _ := cache.ParseObjectName(key); key != "a/0" {
				keys.Begin(name)(true)
			}
		}
		begun(true)
		r.waitIdle()
		r.close()

		again := &dueKeys{}
		r.startKeys(again)
		if got := again.take(); !slices.Equal(got, []string{"a/0"}) {
			t.Errorf("due after a restart: %q, want the key whose new change nobody has worked on", got)
		}
		r.close()
	})
}

type dueKeys struct {
	mu   sync.Mutex
	keys []string
}

func (d *dueKeys) enqueue(key cache.ObjectName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys = append(d.keys, key.String())
}

func (d *dueKeys) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.keys = nil }()
	slices.Sort(d.keys)
	return slices.Compact(d.keys)
}

func (r *rig) startKeys(due *dueKeys) *durable.Keys {
	r.t.Helper()
	keys, err := r.open().Durable().AddKeys("keys", due.enqueue)
	if err != nil {
		r.t.Fatal(err)
	}
	r.run()
	r.waitIdle()
	return keys
}
