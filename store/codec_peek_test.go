package store

import (
	"maps"
	"math/rand"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/selection"
)

// peekQueries are queries that tell apart what peeking must tell apart: each label of
// obj by name and value, one that is not there, and fields.
func peekQueries(t testing.TB, obj runtime.Object, paths []string) []Query {
	t.Helper()
	var queries []Query
	add := func(name string, op selection.Operator, values ...string) {
		if r, err := labels.NewRequirement(name, op, values); err == nil {
			queries = append(queries, Query{Labels: labels.NewSelector().Add(*r)})
		}
	}
	o, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(o.GetLabels())) {
		add(name, selection.Exists)
		add(name, selection.DoesNotExist)
		add(name, selection.In, o.GetLabels()[name])
		add(name, selection.NotIn, o.GetLabels()[name], "other")
	}
	add("absent", selection.Exists)
	add("absent", selection.NotIn, "x")
	add("a", selection.GreaterThan, "3")
	for _, path := range paths {
		for _, value := range []string{"", "x", "0", "1", "true", "false", "-1", o.GetName()} {
			queries = append(queries, Query{Fields: fields.OneTermEqualSelector(path, value)},
				Query{Fields: fields.OneTermNotEqualSelector(path, value)})
		}
		m := newMatcher(Query{}, true)
		m.require(path, "", false)
		value := fieldText(m, obj)
		queries = append(queries, Query{Fields: fields.OneTermEqualSelector(path, value)})
	}
	return queries
}

// fieldText is the text of the one field that m asks for.
func fieldText(m *matcher, obj runtime.Object) string {
	for _, value := range []string{"", "true", "false"} {
		m.fields[0].value = value
		if ok, err := m.object(obj); ok || err != nil {
			return value
		}
	}
	return "x"
}

// comparePeek holds what a payload says against what its object does.
func comparePeek(t testing.TB, c Codec, payload []byte, paths []string, mustKnow bool) {
	t.Helper()
	obj, err := c.Decode(payload)
	if err != nil {
		for _, q := range []Query{{Labels: labels.Set{"a": "b"}.AsSelector()}, {Fields: fields.OneTermEqualSelector("metadata.name", "x")}} {
			newMatcher(q, true).payload(c, c.Name(), payload) // must come back
		}
		return
	}
	for _, q := range peekQueries(t, obj, paths) {
		m := newMatcher(q, true)
		match, known := m.payload(c, c.Name(), payload)
		want, err := m.object(obj)
		if known && (err != nil || match != want) || !known && mustKnow {
			t.Fatalf("%v %v: %v, known %v; the object says %v, %v", q.Labels, q.Fields, match, known, want, err)
		}
	}
}

var podPaths = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "metadata.generation", "metadata.deletionGracePeriodSeconds", "spec.nodeName", "spec.hostNetwork",
	"spec.priority", "spec.enableServiceLinks", "spec.securityContext.runAsUser", "spec.securityContext.fsGroupChangePolicy", "status.phase", "status.qosClass",
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
			for c, obj := range map[Codec]runtime.Object{mustCodec(t, obj): obj, UnstructuredCodec(): parseUnstructured(t, text)} {
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
	for range soaked(12, 300) {
		pod, deployment := &corev1.Pod{}, &appsv1.Deployment{}
		f.Fill(pod)
		f.Fill(deployment)
		for obj, paths := range map[runtime.Object][]string{
			pod:        podPaths[:len(podPaths)-1],
			deployment: {"spec.replicas", "spec.minReadySeconds", "spec.paused", "spec.template.spec.nodeName", "status.replicas", "spec.strategy.type"},
		} {
			c := mustCodec(t, obj)
			data, err := c.Append(nil, obj)
			if err != nil {
				t.Fatal(err)
			}
			comparePeek(t, c, data, paths, true)
			m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				continue // a number that JSON does not have
			}
			u := &unstructured.Unstructured{Object: m}
			if data, err = UnstructuredCodec().Append(nil, u); err != nil {
				t.Fatal(err)
			}
			comparePeek(t, UnstructuredCodec(), data, paths, true)
		}
	}
}

// The reading of numbers as the generated methods do it, sign and width included.
func TestPeekNumbers(t *testing.T) {
	for _, n := range []int32{0, 1, -1, 127, 128, -128, 1 << 30, -1 << 31, 1<<31 - 1} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Priority: &n}}
		c := mustCodec(t, pod)
		data, err := c.Append(nil, pod)
		if err != nil {
			t.Fatal(err)
		}
		m := newMatcher(Query{Fields: fields.OneTermEqualSelector("spec.priority", plainText(int64(n)))}, true)
		if match, known := m.payload(c, c.Name(), data); !match || !known {
			t.Errorf("%d: %v, known %v", n, match, known)
		}
	}
}

// Labels of unstructured objects as GetLabels has them.
func TestPeekOddLabels(t *testing.T) {
	for _, metadata := range []any{
		nil, "text", []any{}, map[string]any(nil), map[string]any{}, map[string]any{"labels": nil}, map[string]any{"labels": "text"},
		map[string]any{"labels": []any{"a"}}, map[string]any{"labels": map[string]any(nil)}, map[string]any{"labels": map[string]any{"a": nil, "b": "c"}},
		map[string]any{"labels": map[string]any{"a": "x", "b": int64(1), "c": "y"}}, map[string]any{"labels": map[string]any{"a": map[string]any{}, "b": "x"}},
		map[string]any{"annotations": map[string]any{"x": []any{nil, 1.5, true}}, "labels": map[string]any{"a": "5"}, "name": "n"},
	} {
		for _, object := range []map[string]any{{"metadata": metadata}, {"a": "before", "metadata": metadata, "z": "behind"}, {}} {
			data, err := UnstructuredCodec().Append(nil, &unstructured.Unstructured{Object: object})
			if err != nil {
				t.Fatal(err)
			}
			comparePeek(t, UnstructuredCodec(), data, []string{"metadata.name", "metadata.labels.a", "metadata", "metadata.annotations.x", "a"}, true)
		}
	}
}

func FuzzPeekProtobuf(f *testing.F) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "ns", Generation: -1, Labels: map[string]string{"a": "5", "b": "", "": "x"}},
		Spec:       corev1.PodSpec{NodeName: "node", HostNetwork: true, Priority: new(int32)},
		Status:     corev1.PodStatus{Phase: "Running"},
	}
	c := mustCodec(f, pod)
	data, err := c.Append(nil, pod)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(append(slices.Clone(data), data[2:]...)) // each field twice
	f.Add([]byte("\x00\x00\x0a\x0d\x5a\x0b\x0a\x01a\x0a\x01b\x12\x01c\x12\x00"))
	f.Add([]byte("\x00\x00\x0b\x0c\x0a\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { comparePeek(t, c, data, podPaths, false) })
}

func FuzzPeekUnstructured(f *testing.F) {
	c := UnstructuredCodec()
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
