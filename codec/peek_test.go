package codec

import (
	"maps"
	"math/rand"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// comparePeek compares the labels and fields that a Peeker reads from a payload with those of the decoded object.
func comparePeek(t testing.TB, c Codec, payload []byte, paths []string, mustKnow bool) {
	t.Helper()
	peeker := c.(Peeker)
	labels, known := peeker.Labels(nil, c.Name(), payload)
	obj, err := c.Decode(payload)
	if err == nil {
		compareLabels(t, obj, labels, known, mustKnow)
	}
	for _, path := range paths {
		field := peeker.Field(strings.Split(path, "."))
		text, has := "", false
		if err == nil {
			text, has = fieldText(obj, strings.Split(path, "."))
		}
		for _, value := range []string{"", "x", "0", "1", "true", "false", "-1", text} {
			if field == nil {
				if has && mustKnow && isText(c, path) {
					t.Fatalf("%s is not known", path)
				}
				continue
			}
			is, known := field.Is(c.Name(), payload, value) // Is must not panic for any payload.
			if err == nil && (known && (!has || is != (text == value)) || !known && mustKnow) {
				t.Fatalf("%s is %q: %v, known %v; the object has %q, %v", path, value, is, known, text, has)
			}
		}
	}
}

func compareLabels(t testing.TB, obj runtime.Object, found []Label, known, mustKnow bool) {
	t.Helper()
	o, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, l := range found {
		got[string(l.Name)] = string(l.Value)
	}
	if known && !maps.Equal(got, o.GetLabels()) || !known && mustKnow {
		t.Fatalf("labels %v, known %v; the object has %v", got, known, o.GetLabels())
	}
}

// fieldText returns the text of a field; has is false if the Go type of obj lacks the field.
func fieldText(obj runtime.Object, path []string) (text string, has bool) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		v, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
		return PlainText(v), true
	}
	v := reflect.ValueOf(obj).Elem()
	p := NewFieldPath(v.Type(), path)
	if p == nil {
		return "", false
	}
	return p.Text(v), true
}

var podPaths = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "metadata.generation", "metadata.deletionGracePeriodSeconds",
	"spec.nodeName", "spec.hostNetwork",
	"spec.priority", "spec.enableServiceLinks", "spec.securityContext.runAsUser",
	"spec.securityContext.fsGroupChangePolicy", "status.phase", "status.qosClass",
	"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.x",
}

func TestPeekFixtures(t *testing.T) {
	t.Parallel()
	decoder := serializer.NewCodecFactory(allKinds(t)).UniversalDeserializer()
	paths := []string{"metadata.name", "metadata.namespace", "metadata.generation", "metadata.deletionGracePeriodSeconds"}
	for _, path := range fixtures(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text := compactJSON(t, readFixture(t, path+".json"))
			obj, _, err := decoder.Decode(text, kindOf(path), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !isStored(obj) {
				return
			}
			for c, obj := range map[Codec]runtime.Object{mustCodec(t, obj): obj, Unstructured(): parseUnstructured(t, text)} {
				data, err := c.Append(nil, obj)
				if err != nil {
					t.Fatal(err)
				}
				comparePeek(t, c, data, paths, true)
			}
		})
	}
}

func TestPeekGenerated(t *testing.T) {
	t.Parallel()
	scheme := allKinds(t)
	f := newFiller(scheme, rand.Int63())
	for range 12 + *generateRounds {
		pod, deployment := &corev1.Pod{}, &appsv1.Deployment{}
		f.Fill(pod)
		f.Fill(deployment)
		for obj, paths := range map[runtime.Object][]string{
			pod: podPaths[:len(podPaths)-1],
			deployment: {"spec.replicas", "spec.minReadySeconds", "spec.paused", "spec.template.spec.nodeName",
				"status.replicas", "spec.strategy.type"},
		} {
			c := mustCodec(t, obj)
			data, err := c.Append(nil, obj)
			if err != nil {
				t.Fatal(err)
			}
			comparePeek(t, c, data, paths, true)
			m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				continue // JSON cannot represent the number.
			}
			u := &unstructured.Unstructured{Object: m}
			if data, err = Unstructured().Append(nil, u); err != nil {
				t.Fatal(err)
			}
			comparePeek(t, Unstructured(), data, paths, true)
		}
	}
}

func isText(c Codec, path string) bool {
	typed, ok := c.(*protobufCodec)
	if !ok {
		return true
	}
	p := NewFieldPath(typed.typ, strings.Split(path, "."))
	return p != nil && p.kind == reflect.String
}

// TestPeekOddLabels checks that Peeker.Labels reads malformed labels as Unstructured.GetLabels does.
func TestPeekOddLabels(t *testing.T) {
	for _, metadata := range []any{
		nil, "text", []any{}, map[string]any(nil), map[string]any{}, map[string]any{"labels": nil},
		map[string]any{"labels": "text"},
		map[string]any{"labels": []any{"a"}}, map[string]any{"labels": map[string]any(nil)},
		map[string]any{"labels": map[string]any{"a": nil, "b": "c"}},
		map[string]any{"labels": map[string]any{"a": "x", "b": int64(1), "c": "y"}},
		map[string]any{"labels": map[string]any{"a": map[string]any{}, "b": "x"}},
		map[string]any{"annotations": map[string]any{"x": []any{nil, 1.5, true}}, "labels": map[string]any{"a": "5"},
			"name": "n"},
	} {
		for _, object := range []map[string]any{{"metadata": metadata}, {"a": "before", "metadata": metadata, "z": "behind"},
			{}} {
			data, err := Unstructured().Append(nil, &unstructured.Unstructured{Object: object})
			if err != nil {
				t.Fatal(err)
			}
			comparePeek(t, Unstructured(), data, []string{"metadata.name", "metadata.labels.a", "metadata",
				"metadata.annotations.x", "a"}, true)
		}
	}
}

func FuzzPeekProtobuf(f *testing.F) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "ns", Generation: -1,
			Labels: map[string]string{"a": "5", "b": "", "": "x"}},
		Spec:   corev1.PodSpec{NodeName: "node", HostNetwork: true, Priority: new(int32)},
		Status: corev1.PodStatus{Phase: "Running"},
	}
	c := mustCodec(f, pod)
	data, err := c.Append(nil, pod)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(append(slices.Clone(data), data[2:]...)) // The payload has each field twice.
	f.Add([]byte("\x00\x00\x0a\x0d\x5a\x0b\x0a\x01a\x0a\x01b\x12\x01c\x12\x00"))
	f.Add([]byte("\x00\x00\x0b\x0c\x0a\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { comparePeek(t, c, data, podPaths, false) })
}

func FuzzPeekUnstructured(f *testing.F) {
	c := Unstructured()
	data, err := c.Append(nil, &unstructured.Unstructured{Object: map[string]any{
		"kind": "Any", "metadata": map[string]any{"name": "n", "labels": map[string]any{"a": "5", "b": nil}},
		"spec": map[string]any{"nodeName": "x", "priority": int64(1), "hostNetwork": true, "f": 1.5, "l": []any{nil}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("\x81\xa8metadata\x81\xa6labels\x82\xa1a\xa1x\xa1a\xa1y"))
	f.Add([]byte("\x81\xa8metadata\x81\xa6labels\xc7\x00\x01"))
	paths := append(slices.Clone(podPaths), "spec.f", "spec.l", "kind", "spec")
	f.Fuzz(func(t *testing.T, data []byte) { comparePeek(t, c, data, paths, false) })
}
