package informer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/fifo"
)

// What the queue was told of an object's size the store need not find out again.
func TestSizeReachesTheStore(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-1"}}
	for typ, want := range map[cache.DeltaType]int{cache.Added: pod.Size(), cache.Updated: pod.Size(), cache.Deleted: 0} {
		op, ok := opOf(fifo.Delta{Delta: cache.Delta{Type: typ, Object: pod}, Bytes: sizeOf(pod)})
		if !ok || op.Size != want {
			t.Errorf("%s: size %d, want %d", typ, op.Size, want)
		}
	}
}
