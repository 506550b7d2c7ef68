package codec_test

import (
	"encoding/json"
	"errors"
	"math/rand"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

type protobufObject interface {
	metav1.Object
	runtime.Object
	Marshal() ([]byte, error)
}

// TestProtobufOfUnstructured checks, for every kind of k8s.io/api, that a server's protobuf and the server's JSON
// decode to equal unstructured objects.
func TestProtobufOfUnstructured(t *testing.T) {
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), scheme.Codecs)
	c := codec.UnstructuredWith(scheme.Scheme)
	sent := codec.NewSent(c, &unstructured.Unstructured{}, true)
	kinds := 0
	for gvk := range scheme.Scheme.AllKnownTypes() {
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		typed, ok := obj.(protobufObject)
		if !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		kinds++
		for range 20 {
			reflect.ValueOf(obj).Elem().SetZero()
			fill.Fill(obj)
			typed.SetManagedFields(append(typed.GetManagedFields(), metav1.ManagedFieldsEntry{Manager: "m"}))
			testProtobufOf(t, c, sent, gvk, typed)
		}
	}
	if kinds < 50 {
		t.Errorf("only %d kinds", kinds)
	}
}

func testProtobufOf(t *testing.T, c codec.Codec, sent *codec.Sent, gvk schema.GroupVersionKind, typed protobufObject) {
	t.Helper()
	typed.GetObjectKind().SetGroupVersionKind(gvk)
	raw, err := typed.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	// An API server makes its JSON from a protobuf object in etcd, so the expected JSON comes from decoded protobuf.
	again := reflect.New(reflect.TypeOf(typed).Elem()).Interface().(protobufObject)
	if err := again.(interface{ Unmarshal([]byte) error }).Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	again.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	if err := utiljson.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	var of metav1.TypeMeta
	of.APIVersion, of.Kind = gvk.ToAPIVersionAndKind()
	u, err := sent.Protobuf(raw, of)
	if err != nil {
		t.Fatalf("%s: %v", gvk, err)
	}
	obj, err := codec.Decode(c, u.Encoding, u.Payload)
	if err != nil {
		t.Fatalf("%s: %v", gvk, err)
	}
	if got := obj.(*unstructured.Unstructured).Object; !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got\n%v\nwant\n%v", gvk, got, want)
	}
	meta := u.GetObjectMeta()
	if meta.GetName() != typed.GetName() || meta.GetNamespace() != typed.GetNamespace() ||
		meta.GetUID() != typed.GetUID() || !equalLabels(meta.GetLabels(), typed.GetLabels()) {
		t.Errorf("%s: metadata %+v", gvk, meta)
	}
	testOmitted(t, typed, u, want)
}

func testOmitted(t *testing.T, typed runtime.Object, u *entry.Undecoded, object map[string]any) {
	t.Helper()
	c, err := codec.For(typed)
	if err != nil {
		t.Fatal(err)
	}
	view, err := codec.View(entry.Typed, c)
	if err != nil {
		t.Fatal(err)
	}
	text, err := codec.Unstructured().Append(nil, &unstructured.Unstructured{Object: object})
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	for encoding, payload := range map[string][]byte{u.Encoding: u.Payload, codec.EncodingMsgpack: text} {
		obj, err := codec.Decode(view, encoding, codec.OmitManagedFields(view, encoding, payload))
		if err != nil {
			t.Fatal(err)
		}
		if got := obj.(*unstructured.Unstructured).Object; !reflect.DeepEqual(got, object) {
			t.Errorf("%s: got\n%v\nwant\n%v", encoding, got, object)
		}
	}
}

// TestOmitManagedFields checks that fields named managedFields outside metadata stay.
func TestOmitManagedFields(t *testing.T) {
	view, err := codec.View(entry.Unstructured, nil)
	if err != nil {
		t.Fatal(err)
	}
	fields := func() map[string]any { return map[string]any{"managedFields": []any{"a"}, "name": "b"} }
	object := map[string]any{
		"managedFields": "x", "metadata": fields(), "spec": fields(), "template": map[string]any{"metadata": fields()},
	}
	data, err := codec.Unstructured().Append(nil, &unstructured.Unstructured{Object: object})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := codec.Decode(view, codec.EncodingMsgpack, codec.OmitManagedFields(view, codec.EncodingMsgpack, data))
	if err != nil {
		t.Fatal(err)
	}
	delete(object["metadata"].(map[string]any), "managedFields")
	if got := obj.(*unstructured.Unstructured).Object; !reflect.DeepEqual(got, object) {
		t.Errorf("got %v, want %v", got, object)
	}
}

func equalLabels(a, b map[string]string) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

// TestFieldsOfANewerType checks that a field unknown to an older server is absent in the decoded protobuf, as in that
// server's JSON.
func TestFieldsOfANewerType(t *testing.T) {
	c := codec.UnstructuredWith(scheme.Scheme)
	sent := codec.NewSent(c, &unstructured.Unstructured{}, false)
	n := &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d", NodeID: "1"}}}}
	n.Name = "node"
	raw, err := n.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	decode := func(raw []byte) map[string]any {
		t.Helper()
		u, err := sent.Protobuf(raw, metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"})
		if err != nil {
			t.Fatal(err)
		}
		obj, err := codec.Decode(c, u.Encoding, u.Payload)
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*unstructured.Unstructured).Object
	}
	whole := decode(raw)
	driver := whole["spec"].(map[string]any)["drivers"].([]any)[0].(map[string]any)
	if driver["nodeID"] != "1" {
		t.Fatalf("%v", whole)
	}
	for name, number := range map[string]protowire.Number{"metadata": 1, "spec": 2} {
		without := decode(withoutField(raw, number))
		if _, has := without[name]; has || len(without) != len(whole)-1 {
			t.Errorf("without the field %d: %v", number, without)
		}
	}
	// The removed field is spec.drivers[0].nodeID: spec is field 2, drivers is field 1, and nodeID is field 2.
	spec := fieldOf(raw, 2)
	inner := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), withoutField(fieldOf(spec, 1), 2))
	older := append(withoutField(raw, 2),
		protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), inner)...)
	driver = decode(older)["spec"].(map[string]any)["drivers"].([]any)[0].(map[string]any)
	if _, has := driver["nodeID"]; has || driver["name"] != "d" {
		t.Errorf("without a field in a list: %v", driver)
	}
}

func fieldOf(msg []byte, number protowire.Number) (value []byte) {
	for len(msg) > 0 {
		at, wire, n := protowire.ConsumeTag(msg)
		size := protowire.ConsumeFieldValue(at, wire, msg[n:])
		if at == number {
			value, _ = protowire.ConsumeBytes(msg[n:])
		}
		msg = msg[n+size:]
	}
	return value
}

func withoutField(msg []byte, number protowire.Number) (out []byte) {
	for len(msg) > 0 {
		at, wire, n := protowire.ConsumeTag(msg)
		size := protowire.ConsumeFieldValue(at, wire, msg[n:])
		if at != number {
			out = append(out, msg[:n+size]...)
		}
		msg = msg[n+size:]
	}
	return out
}

func TestProtobufOfNoKind(t *testing.T) {
	for name, c := range map[string]codec.Codec{
		"of another kind": codec.UnstructuredWith(scheme.Scheme), "of a codec without a scheme": codec.Unstructured(),
	} {
		sent := codec.NewSent(c, &unstructured.Unstructured{}, false)
		if _, err := sent.Protobuf([]byte{}, metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Widget"}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzProtobufOfUnstructured checks that any payload decodes to the object of client-go's decoder, or fails if
// client-go's decoder fails.
func FuzzProtobufOfUnstructured(f *testing.F) {
	for _, pod := range []*corev1.Pod{
		{},
		{ObjectMeta: metav1.ObjectMeta{
			Name: "p", Labels: map[string]string{"a": "b"}, CreationTimestamp: metav1.Unix(1e9, 0),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`)}},
		}},
		{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: -1}}, LivenessProbe: &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("x")}},
			},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
		}}}},
	} {
		raw, err := pod.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	c := codec.UnstructuredWith(scheme.Scheme)
	f.Fuzz(func(t *testing.T, raw []byte) {
		payload := protowire.AppendString(protowire.AppendString(nil, "v1"), "Pod")
		payload = append(payload, raw...)
		obj, err := codec.Decode(c, codec.EncodingProtobuf, payload)
		pod := &corev1.Pod{}
		if theirs := pod.Unmarshal(raw); theirs != nil {
			if err == nil {
				return // pod.Unmarshal is stricter: it also checks unknown fields.
			}
			if !errors.Is(err, entry.ErrDamaged) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		if err != nil {
			return // The converter also decodes unusual payloads, and refuses some values.
		}
		got := obj.(*unstructured.Unstructured)
		back := &corev1.Pod{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, back) != nil {
			return // The payload has a malformed quantity.
		}
		pod.APIVersion, pod.Kind = "v1", "Pod"
		if !equality.Semantic.DeepEqual(back, pod) {
			t.Error(cmp.Diff(pod, back, cmpopts.EquateEmpty()))
		}
	})
}
