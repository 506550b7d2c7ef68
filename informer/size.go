package informer

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// defaultSize is the size of typed objects without a Size method.
const defaultSize = 1 << 10

// sizeOf returns the approximate size of obj in bytes, for the queue's limit.
func sizeOf(obj runtime.Object) int64 {
	switch o := obj.(type) {
	case interface{ Size() int }: // the protobuf generator makes Size
		return int64(o.Size())
	case runtime.Unstructured:
		return sizeOfValue(o.UnstructuredContent())
	}
	return defaultSize
}

func sizeOfValue(v any) int64 {
	const word = 16
	switch v := v.(type) {
	case string:
		return word + int64(len(v))
	case map[string]any:
		n := int64(3 * word)
		for k, e := range v {
			n += word + int64(len(k)) + sizeOfValue(e)
		}
		return n
	case []any:
		n := int64(word)
		for _, e := range v {
			n += sizeOfValue(e)
		}
		return n
	}
	return word
}
