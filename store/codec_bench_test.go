package store

import (
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// benchPod is a pod as the API server sends it: 3 KB, two thirds of it
// metadata and managedFields.
const benchPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-7d4b9c6f5d-x2x9k","generateName":"web-7d4b9c6f5d-","namespace":"shop",
"uid":"0f6a3c52-6c5e-4b0e-9f5d-0b8b3f0f9a11","resourceVersion":"184467","creationTimestamp":"2026-01-02T03:04:05Z",
"labels":{"app":"web","pod-template-hash":"7d4b9c6f5d","tier":"frontend"},"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"9090"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d4b9c6f5d","uid":"a2c1b0de-93c1-4b8e-a0cf-6f1a6a0c7b42","controller":true,"blockOwnerDeletion":true}],
"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1",
"fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},"f:tier":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"a2c1b0de-93c1-4b8e-a0cf-6f1a6a0c7b42\"}":{}}},
"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:terminationGracePeriodSeconds":{}}}},
{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:09Z","fieldsType":"FieldsV1","subresource":"status",
"fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"10.1.2.3\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}}]},
"spec":{"volumes":[{"name":"token","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}}],"defaultMode":420}}],
"containers":[{"name":"web","image":"example.com/shop/web:1.2.3","ports":[{"containerPort":8080,"protocol":"TCP"}],"env":[{"name":"PORT","value":"8080"},{"name":"NODE","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"spec.nodeName"}}}],
"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"token","readOnly":true,"mountPath":"/var/run/token"}],"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"web","nodeName":"node-17","securityContext":{},"schedulerName":"default-scheduler","priority":0,"enableServiceLinks":true},
"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:09Z"},{"type":"Initialized","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}],
"hostIP":"192.168.0.17","podIP":"10.1.2.3","podIPs":[{"ip":"10.1.2.3"}],"startTime":"2026-01-02T03:04:05Z","containerStatuses":[{"name":"web","state":{"running":{"startedAt":"2026-01-02T03:04:08Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"example.com/shop/web:1.2.3","imageID":"example.com/shop/web@sha256:9f2c","containerID":"containerd://0a1b","started":true}],"qosClass":"Burstable"}}`

func benchObjects(b *testing.B) (*corev1.Pod, *unstructured.Unstructured) {
	b.Helper()
	text := compactJSON(b, []byte(benchPod))
	var pod corev1.Pod
	if err := json.Unmarshal(text, &pod); err != nil {
		b.Fatal(err)
	}
	return &pod, parseUnstructured(b, text)
}

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

// BenchmarkCodec: one 3 KB pod through each codec.
func BenchmarkCodec(b *testing.B) {
	pod, u := benchObjects(b)
	b.Run("protobuf", func(b *testing.B) { benchCodec(b, mustCodec(b, pod), pod) })
	b.Run("protobuf-metadata", func(b *testing.B) {
		m := &metav1.PartialObjectMetadata{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta}
		benchCodec(b, mustCodec(b, m), m)
	})
	b.Run("msgpack-unstructured", func(b *testing.B) { benchCodec(b, UnstructuredCodec(), u) })
	b.Run("msgpack-typed", func(b *testing.B) {
		c, err := MsgpackCodec(pod)
		if err != nil {
			b.Fatal(err)
		}
		benchCodec(b, c, pod)
	})
}

// BenchmarkReference: the same pod through what BenchmarkCodec is to be held
// against: the generated methods alone, and the serializers of client-go's
// typed and dynamic clients.
func BenchmarkReference(b *testing.B) {
	pod, u := benchObjects(b)
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

// BenchmarkUnstructuredParallel: decoding on all cores at once, which the
// table of names must not slow down.
func BenchmarkUnstructuredParallel(b *testing.B) {
	_, u := benchObjects(b)
	c := UnstructuredCodec()
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

// BenchmarkRecord: a payload of 3 KB into a record and out of it.
func BenchmarkRecord(b *testing.B) {
	h := header{
		UID: "0f6a3c52-6c5e-4b0e-9f5d-0b8b3f0f9a11", RV: "184467", Seq: 184467, Encoding: encodingProtobuf,
		Terms: map[string][]string{"namespace": {"shop"}},
	}
	const collection, key = "6c691bf7459bb04f8ec4", "shop/web-7d4b9c6f5d-x2x9k"
	payload := make([]byte, 3000)
	data := appendRecord(nil, collection, key, h, payload)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, len(data))
		for b.Loop() {
			appendRecord(buf, collection, key, h, payload)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := parseRecord(collection, key, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("payload", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := parsePayload(collection, key, data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
