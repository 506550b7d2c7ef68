package codec

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/larder-dev/larder/internal/sample"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

func benchCodec(b *testing.B, c Codec, obj runtime.Object) {
	data, err := c.Append(nil, obj)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, len(data))
		for b.Loop() {
			if _, err := c.Append(buf, obj); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(data)), "bytes")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	pod, u := sample.Pod(b)
	b.Run("protobuf", func(b *testing.B) { benchCodec(b, mustCodec(b, pod), pod) })
	b.Run("protobuf-metadata", func(b *testing.B) {
		m := &metav1.PartialObjectMetadata{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta}
		benchCodec(b, mustCodec(b, m), m)
	})
	b.Run("msgpack-unstructured", func(b *testing.B) { benchCodec(b, Unstructured(), u) })
	b.Run("msgpack-typed", func(b *testing.B) {
		c, err := ForMsgpack(pod)
		if err != nil {
			b.Fatal(err)
		}
		benchCodec(b, c, pod)
	})
}

// BenchmarkReference measures generated protobuf methods, and client-go's serializers, for comparison with the codecs.
func BenchmarkReference(b *testing.B) {
	pod, u := sample.Pod(b)
	b.Run("protobuf-generated", func(b *testing.B) { benchGenerated(b, pod) })
	b.Run("protobuf-serializer", func(b *testing.B) {
		benchSerializer(b, protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme), pod)
	})
	b.Run("json-dynamic", func(b *testing.B) { benchSerializer(b, unstructured.UnstructuredJSONScheme, u) })
	b.Run("json-unstructured", func(b *testing.B) {
		benchJSON(b, u.Object, func() any { return new(map[string]any) })
	})
	b.Run("json-typed", func(b *testing.B) { benchJSON(b, pod, func() any { return new(corev1.Pod) }) })
}

// benchSink keeps a decoded object from being allocated on the stack.
var benchSink *corev1.Pod

func benchGenerated(b *testing.B, pod *corev1.Pod) {
	data, err := pod.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, len(data))
		for b.Loop() {
			if _, err := pod.MarshalToSizedBuffer(buf[:pod.Size()]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(data)), "bytes")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			benchSink = &corev1.Pod{}
			if err := benchSink.Unmarshal(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchSerializer(b *testing.B, s runtime.Serializer, obj runtime.Object) {
	var data bytes.Buffer
	if err := s.Encode(obj, &data); err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		var buf bytes.Buffer
		for b.Loop() {
			buf.Reset()
			if err := s.Encode(obj, &buf); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(data.Len()), "bytes")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := s.Decode(data.Bytes(), nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchJSON(b *testing.B, obj any, into func() any) {
	data, err := json.Marshal(obj)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(obj); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(data)), "bytes")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := utiljson.Unmarshal(data, into()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkUnstructuredParallel checks that the table of shared strings does not slow down decoding on all cores.
func BenchmarkUnstructuredParallel(b *testing.B) {
	_, u := sample.Pod(b)
	c := Unstructured()
	data, err := c.Append(nil, u)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Decode(data); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkProtobufUnstructured(b *testing.B) {
	pod, _ := sample.Pod(b)
	raw, err := pod.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	c := UnstructuredWith(clientscheme.Scheme)
	u, err := NewSent(c, &unstructured.Unstructured{}, false).Protobuf(raw, metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(c, u.Encoding, u.Payload); err != nil {
			b.Fatal(err)
		}
	}
}
