package resident_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/store/internal/resident"
)

// TestWeigh: what an object is weighed at is what it takes in memory decoded, by a factor of two, whatever
// its payload is encoded in.
func TestWeigh(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
		Name: "a", Annotations: map[string]string{"applied": strings.Repeat("a", 700)},
	}}
	for n := range 3 {
		env := []corev1.EnvVar{{Name: fmt.Sprint("NAME_", n), Value: strings.Repeat("v", 20)}}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", n), Image: "image:1",
			Command: []string{"run", "it"}, Env: env, Ports: []corev1.ContainerPort{{ContainerPort: 80}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}})
	}
	content, err := kruntime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		t.Fatal(err)
	}
	inMsgpack, err := codec.ForMsgpack(pod)
	if err != nil {
		t.Fatal(err)
	}
	inProtobuf, err := codec.For(pod)
	if err != nil {
		t.Fatal(err)
	}
	both := codec.UnstructuredWith(scheme.Scheme)
	for name, tt := range map[string]struct {
		writes, reads codec.Codec
		obj           kruntime.Object
	}{
		"typed, protobuf":        {inProtobuf, inProtobuf, pod},
		"typed, JSON":            {inMsgpack, inMsgpack, pod},
		"unstructured, msgpack":  {both, both, &unstructured.Unstructured{Object: content}},
		"unstructured, protobuf": {inProtobuf, both, pod},
	} {
		payload, err := tt.writes.Append(nil, tt.obj)
		if err != nil {
			t.Fatal(err)
		}
		objs := make([]kruntime.Object, 500)
		before := heap()
		for i := range objs {
			if objs[i], err = codec.Decode(tt.reads, tt.writes.Name(), payload); err != nil {
				t.Fatal(err)
			}
		}
		takes := float64(heap()-before) / float64(len(objs))
		weight := float64(resident.Weigh(objs[0], tt.writes.Name(), "a", len(payload)))
		if weight < takes/2 || weight > takes*2 {
			t.Errorf("%s: a payload of %d bytes is weighed at %.0f and takes %.0f", name, len(payload), weight, takes)
		}
		runtime.KeepAlive(objs)
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
