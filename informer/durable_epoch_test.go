package informer_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer/durable"
)

// TestDurableKeysDoneBeforeAReset checks durable keys whose work began before the file lost the collection. After the
// loss, changes are numbered from 1 again, so the old work has a higher number than a later change. It must not
// acknowledge that change.
func TestDurableKeysDoneBeforeAReset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range 5 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		due := &dueKeys{}
		keys := r.startKeys(due)
		for range 20 { // the last change's number must exceed all numbers after the loss
			r.srv.write("a/0", "y")
			r.waitIdle()
		}
		begun := keys.Begin(cache.NewObjectName("a", "0"))
		due.take()

		r.loseCollection()
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

// loseCollection damages the collection's metadata in the file, rebuilds the file, and waits until the informer has
// listed.
func (r *rig) loseCollection() {
	r.t.Helper()
	f, err := os.OpenFile(r.path, os.O_RDWR, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	data, err := os.ReadFile(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	for at, rest := 0, data; ; {
		n := bytes.Index(rest, []byte("nextSeq"))
		if n < 0 {
			break
		}
		if _, err := f.WriteAt([]byte("X"), int64(at+n)); err != nil {
			r.t.Fatal(err)
		}
		at, rest = at+n+1, rest[n+1:]
	}
	if err := f.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.st.Rebuild(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	r.waitIdle()
}
