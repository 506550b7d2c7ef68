package scenario

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
)

// rawFormat is how a raw file holds pods: as those who read it want them.
type rawFormat struct {
	encode func(pod *corev1.Pod) ([]byte, error)
	decode func(value []byte) error
}

// formatOf returns the format of a case. For typed objects it is the protobuf that their type generates. Unstructured ones have Larder's encoding,
// since there is no other that is as fast: JSON would make the limit too easy to reach.
func formatOf(c Case) rawFormat {
	if !c.Subject.Dynamic {
		return rawFormat{
			encode: (*corev1.Pod).Marshal,
			decode: func(value []byte) error { return new(corev1.Pod).Unmarshal(value) },
		}
	}
	codec := codec.Unstructured()
	return rawFormat{
		encode: func(pod *corev1.Pod) ([]byte, error) {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
			if err != nil {
				return nil, err
			}
			obj := &unstructured.Unstructured{Object: content}
			obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			return codec.Append(nil, obj)
		},
		decode: func(value []byte) error {
			_, err := codec.Decode(value)
			return err
		},
	}
}
