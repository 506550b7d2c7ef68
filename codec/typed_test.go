package codec

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

// widget has fields that runtime.DefaultUnstructuredConverter does not preserve (see msgpackCodec).
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Large    uint64               `json:"large"`
	Raw      runtime.RawExtension `json:"raw"`
	Array    [2]int               `json:"array"`
	Duration time.Duration        `json:"duration"`
	Text     string               `json:"text"`
	cached   int
	*Optional
}

type Optional struct {
	Extra string `json:"extra,omitempty"`
}

func (w *widget) DeepCopyObject() runtime.Object {
	c := *w
	return &c
}

// bare embeds ObjectMeta and no TypeMeta, so it promotes ObjectMeta's protobuf methods, which ignore Spec.
type bare struct {
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	Kind              metav1.TypeMeta `json:"kind"`
	Spec              string          `json:"spec"`
}

func (b *bare) GetObjectKind() schema.ObjectKind { return &b.Kind }
func (b *bare) DeepCopyObject() runtime.Object {
	c := *b
	return &c
}

func newWidget() *widget {
	return &widget{
		TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Widget"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "m", FieldsType: "FieldsV1",
			// The keys are in the server's order, by port number, not by text.
			FieldsV1: fieldsV1(`{"f:ports":{".":{},"k:{\"port\":80}":{},"k:{\"port\":443}":{}}}`),
		}}},
		Large:    math.MaxUint64,
		Raw:      runtime.RawExtension{Raw: []byte(`{"z":1.0,"a":12345678901234567890,"h":"<&>"}`)},
		Array:    [2]int{1, 2},
		Duration: time.Minute,
		Text:     "<&>\u2028",
		cached:   7,
	}
}

func fieldsV1(s string) *metav1.FieldsV1 {
	f := &metav1.FieldsV1{}
	f.SetRawString(s)
	return f
}

func TestTypedWithoutProtobuf(t *testing.T) {
	c := mustCodec(t, &widget{})
	if c.Name() != "msgpack" {
		t.Fatalf("codec %q", c.Name())
	}
	want := newWidget()
	got := roundTrip(t, c, want)
	want.cached = 0 // unexported fields are not encoded
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestPromotedProtobufMethodsAreNotUsed(t *testing.T) {
	var _ protobufMessage = &bare{}
	want := &bare{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: "kept"}
	c := mustCodec(t, want)
	if got := roundTrip(t, c, want); c.Name() != "msgpack" || !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("%s: got %#v", c.Name(), got)
	}
	if c, err := For(want); err != nil || c.Name() != EncodingMsgpack {
		t.Error("For chooses another")
	}
}

func TestTypeMetaIsKept(t *testing.T) {
	for _, want := range []metav1.TypeMeta{{}, {Kind: "Pod"}, {APIVersion: "v1"}, {APIVersion: "a/b/c", Kind: "Pod"}} {
		for _, choose := range []func(runtime.Object) (Codec, error){For, ForMsgpack} {
			pod := &corev1.Pod{TypeMeta: want, ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			c, err := choose(pod)
			if err != nil {
				t.Fatal(err)
			}
			if got := roundTrip(t, c, pod).(*corev1.Pod); got.TypeMeta != want {
				t.Errorf("%s: %+v came back as %+v", c.Name(), want, got.TypeMeta)
			}
		}
	}
}

func TestMetadataOnly(t *testing.T) {
	want := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: newWidget().ObjectMeta,
	}
	c := mustCodec(t, want)
	if got := roundTrip(t, c, want); c.Name() != "protobuf" || !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("%s: got %#v", c.Name(), got)
	}
	view, err := View(entry.Metadata, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := c.Append(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(view, c.Name(), data)
	if err != nil || got.(*unstructured.Unstructured).GetName() != "a" {
		t.Errorf("view: %v, %v", got, err)
	}
}

func TestCodecForRefuses(t *testing.T) {
	for _, example := range []runtime.Object{
		nil, &corev1.PodList{}, &unstructured.UnstructuredList{}, &metav1.PartialObjectMetadataList{},
	} {
		for _, choose := range []func(runtime.Object) (Codec, error){For, ForMsgpack} {
			if c, err := choose(example); err == nil {
				t.Errorf("%T: %v", example, c)
			}
		}
	}
}

func TestTypedCheckNamesBothTypes(t *testing.T) {
	for _, want := range []runtime.Object{&corev1.Pod{}, &widget{}} {
		c := mustCodec(t, want)
		for _, obj := range []runtime.Object{&corev1.Node{}, &unstructured.Unstructured{}, nil,
			reflect.Zero(reflect.TypeOf(want)).Interface().(runtime.Object)} {
			err := c.Check(obj)
			if err == nil {
				t.Errorf("a codec for %T takes %#v", want, obj)
				continue
			}
			if s := err.Error(); !strings.Contains(s, reflect.TypeOf(want).String()) ||
				obj != nil && !strings.Contains(s, reflect.TypeOf(obj).String()) {
				t.Errorf("error %q does not name %T and %T", s, want, obj)
			}
			if data, err := c.Append([]byte("before"), obj); err == nil || string(data) != "before" {
				t.Errorf("Append takes %#v", obj)
			}
		}
	}
}

func TestProtobufRefusesDecodedExtensions(t *testing.T) {
	secret := &corev1.Secret{StringData: map[string]string{"a": "hidden"}}
	revision := &appsv1.ControllerRevision{Data: runtime.RawExtension{Object: secret}}
	c := mustCodec(t, revision)
	if _, err := c.Append(nil, revision); !errors.Is(err, errDecodedExtension) ||
		!strings.HasPrefix(err.Error(), "encode *v1.ControllerRevision: ") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("got %v", err)
	}
	revision.Data.Raw = []byte(`{}`)
	if _, err := c.Append(nil, revision); err != nil {
		t.Errorf("with Raw set: %v", err)
	}
	if holdsRawExtension(reflect.TypeFor[corev1.Pod]()) {
		t.Error("pods would be searched for raw extensions")
	}
}

func TestTypedDecodeErrors(t *testing.T) {
	pod, node := mustCodec(t, &corev1.Pod{}), mustCodec(t, &widget{})
	for _, c := range []struct {
		codec Codec
		data  string
		want  error
	}{
		{pod, "", entry.ErrDamaged},
		{pod, "\x05v1", entry.ErrDamaged},
		{pod, "\x02v1\x03Pod\xff\xff", entry.ErrDamaged},
		{pod, "\x02v1\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", entry.ErrDamaged},
		{node, "", entry.ErrDamaged},
		{node, "\xc4", entry.ErrDamaged},
		{node, "\xc6\xff\xff\xff\xff{}", entry.ErrDamaged},
		{node, "\xa2{}", entry.ErrDamaged},
		{node, "\xc4\x02{}x", entry.ErrDamaged},
		{node, "\xc4\x0f{\"text\":\"hidden", entry.ErrDamaged},
		{node, "\xc4\x10{\"large\":\"hidden\"}", entry.ErrDamaged},
		{node, "\xc4\x12{\"large\":\"hidden\"}", entry.ErrIncompatible},
	} {
		obj, err := c.codec.Decode([]byte(c.data))
		if !errors.Is(err, c.want) || obj != nil {
			t.Errorf("%q: %v, %v", c.data, obj, err)
		} else if strings.Contains(err.Error(), "hidden") {
			t.Errorf("error %q quotes the content", err)
		}
	}
}

func TestEncodeErrorsQuoteNoContent(t *testing.T) {
	w := newWidget()
	w.Raw.Raw = []byte(`{hidden`)
	data, err := mustCodec(t, w).Append([]byte("before"), w)
	if err == nil || strings.Contains(err.Error(), "hidden") || string(data) != "before" {
		t.Errorf("got %q, %v", data, err)
	}
}

func TestDecodePayloadRefusesUnknownEncodings(t *testing.T) {
	view, err := View(entry.Typed, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Codec{mustCodec(t, &corev1.Pod{}), mustCodec(t, &widget{}), Unstructured(), view} {
		for _, encoding := range []string{"", "cbor"} {
			if _, err := Decode(c, encoding, nil); !errors.Is(err, entry.ErrIncompatible) {
				t.Errorf("%T, %q: %v", c, encoding, err)
			}
		}
	}
	// Codecs must refuse protobuf if their type has no protobuf methods, or if they have no scheme.
	for _, c := range []Codec{mustCodec(t, &widget{}), Unstructured(), view} {
		if _, err := Decode(c, "protobuf", nil); !errors.Is(err, entry.ErrIncompatible) {
			t.Errorf("%T: %v", c, err)
		}
	}
}

func TestViewOfUnstructured(t *testing.T) {
	view, err := View(entry.Unstructured, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &unstructured.Unstructured{Object: map[string]any{"kind": "A", "f": float64(1), "i": int64(1)}}
	data, err := Unstructured().Append(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(view, "msgpack", data); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v", got, err)
	}
	if _, err := view.Append(nil, want); err == nil {
		t.Error("a view writes")
	}
}

// TestUnstructuredConverterIsNotFaithful checks the reason why msgpackCodec does not use an unstructured map. If the
// test fails, the converter no longer loses data, and msgpackCodec can use a map.
func TestUnstructuredConverterIsNotFaithful(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: newWidget().ObjectMeta}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &got); err != nil {
		t.Fatal(err)
	}
	if apiequality.Semantic.DeepEqual(pod, &got) {
		t.Error("managedFields survived")
	}
}

func FuzzDecodeTyped(f *testing.F) {
	w := newWidget()
	codecs := []Codec{mustCodec(f, w), mustCodec(f, &corev1.Pod{}), mustCodec(f, &metav1.PartialObjectMetadata{})}
	for i, obj := range []runtime.Object{w, &corev1.Pod{ObjectMeta: w.ObjectMeta},
		&metav1.PartialObjectMetadata{ObjectMeta: w.ObjectMeta}} {
		seed, err := codecs[i].Append(nil, obj)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), seed)
		f.Add(uint8(i), []byte(nil))
	}
	f.Add(uint8(0), []byte("\xc6\xff\xff\xff\xff{}"))
	f.Add(uint8(1), []byte("\x00\x00\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		c := codecs[int(which)%len(codecs)]
		obj, err := c.Decode(data)
		if err != nil {
			if !errors.Is(err, entry.ErrDamaged) && !errors.Is(err, entry.ErrIncompatible) {
				t.Fatalf("error %v is neither ErrDamaged nor ErrIncompatible", err)
			}
			return
		}
		if _, err := c.Append(nil, obj); err != nil && c.Name() == "protobuf" {
			t.Fatal(err)
		}
	})
}
func mustCodec(t testing.TB, example runtime.Object) Codec {
	t.Helper()
	c, err := For(example)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
