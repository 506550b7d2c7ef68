package informer_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

type countingCodec struct {
	codec.Codec
	decoded *atomic.Int64
}

func (c countingCodec) Decode(data []byte) (runtime.Object, error) {
	c.decoded.Add(1)
	return c.Codec.Decode(data)
}

// TestRestartDecodesNothing checks that a restart with unchanged objects decodes each object once for a handler, and
// none without a handler.
func TestRestartDecodesNothing(t *testing.T) {
	const objects = 700
	for _, policy := range []informer.SyncPolicy{informer.Disk, informer.Resumed} {
		for _, handled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s handler %v", policy, handled), func(t *testing.T) {
				bubble(t, func(t *testing.T) { testRestartDecodes(t, policy, handled, objects) })
			})
		}
	}
}

func testRestartDecodes(t *testing.T, policy informer.SyncPolicy, handled bool, objects int) {
	r := newRig(t)
	r.unread = true
	codec, err := codec.For(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	r.o.Codec, r.o.Residency, r.o.SyncPolicy = codec, store.None, policy
	r.o.Indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	for i := range objects {
		r.srv.write(fmt.Sprintf("a/%03d", i), "x")
	}
	r.start()
	r.close()

	var decoded atomic.Int64
	r.o.Codec = countingCodec{codec, &decoded}
	var handlers []cache.ResourceEventHandler
	want := 0
	if handled {
		handlers, want = append(handlers, &recorder{}), objects
	}
	i := r.start(handlers...)
	time.Sleep(10 * time.Second) // the store has then written all uncommitted changes
	synctest.Wait()
	if s := i.Status(); !i.HasSynced() || s.Source != informer.Live || s.Reflector.Resumes != 1 ||
		len(s.Reflector.Relists) != 0 {
		t.Errorf("status: %+v", s)
	}
	if keys := i.GetIndexer().ListKeys(); len(keys) != objects || i.LastSyncResourceVersion() == "" {
		t.Errorf("%d keys", len(keys))
	}
	if got := decoded.Load(); got != int64(want) {
		t.Errorf("%d objects were decoded, want %d", got, want)
	}
	r.close()
}
