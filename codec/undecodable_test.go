package codec_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/msgpack"
)

// color stands for a user's type whose UnmarshalJSON fails or panics.
type color string

func (c *color) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	switch s {
	case "panics":
		panic("secret: " + s)
	case "indexes":
		s = s[len(s)+len(data):]
	case "refused":
		return errors.New("secret: " + s)
	}
	*c = color(s)
	return nil
}

type boat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Seats int32            `json:"seats"`
		Sails []sail           `json:"sails"`
		Named map[string]color `json:"named"`
	} `json:"spec"`
}

type sail struct {
	Color color `json:"color"`
}

func (b *boat) DeepCopyObject() runtime.Object { c := *b; return &c }

type panicky struct{ codec.Codec }

func (panicky) Decode([]byte) (runtime.Object, error) { panic("secret") }

// TestUndecodableNamesTheField checks the error for an object that does not fit the Go type, or whose methods panic.
// The error names the field, wraps ErrIncompatible, and quotes nothing of the object.
func TestUndecodableNamesTheField(t *testing.T) {
	c, err := codec.For(&boat{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ json, field string }{
		"a number":     {`{"metadata":{"name":"a"},"spec":{"seats":"secret"}}`, "spec.seats"},
		"too large":    {`{"spec":{"seats":5000000000,"sails":[]}}`, "spec.seats"},
		"no object":    {`{"spec":["secret"]}`, "spec"},
		"in a list":    {`{"spec":{"seats":1,"sails":[{"color":"red"},{"color":"refused"}]}}`, "spec.sails[1].color"},
		"in a map":     {`{"spec":{"named":{"a":"red","main mast":"refused"}}}`, `spec.named["main mast"]`},
		"panics":       {`{"spec":{"sails":[{},{},{"color":"panics"}]}}`, "spec.sails[2].color"},
		"out of range": {`{"spec":{"sails":[{"color":"indexes"}]}}`, "spec.sails[0].color"},
		"the metadata": {`{"metadata":{"labels":{"a":7}}}`, "metadata.labels.a"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := codec.Decode(c, codec.EncodingMsgpack, msgpack.AppendBin(nil, []byte(tt.json)))
			if !errors.Is(err, entry.ErrIncompatible) || !strings.Contains(err.Error(), " "+tt.field+": ") {
				t.Errorf("got %v, want %s", err, tt.field)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("it quotes the object: %v", err)
			}
		})
	}
	if _, err := codec.Decode(panicky{c}, codec.EncodingMsgpack, nil); !errors.Is(err, entry.ErrIncompatible) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("a codec that panics: %v", err)
	}
}

func TestUndecodableMessageNamesTheField(t *testing.T) {
	c, err := codec.For(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "one", Image: "two"}}, NodeName: "node",
	}}
	payload, err := c.Append(nil, pod)
	if err != nil {
		t.Fatal(err)
	}
	// The test corrupts the field image of a container: as a fixed32 it consumes its length and the first three bytes.
	at := strings.Index(string(payload), "\x12\x03two")
	payload[at] = 2<<3 | 5
	_, err = codec.Decode(c, codec.EncodingProtobuf, payload)
	if !errors.Is(err, entry.ErrDamaged) || !strings.Contains(err.Error(), " spec.containers.image: ") {
		t.Errorf("got %v", err)
	}
}

// TestSentUndecodable checks that an undecodable object still has the server's name, UID, resourceVersion and labels.
func TestSentUndecodable(t *testing.T) {
	const head = `"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"5","labels":{"l":"m"}}`
	for name, tt := range map[string]struct {
		example runtime.Object
		json    string
		labels  bool
		want    string // "" for an unreadable name
	}{
		"protobuf":     {&corev1.Pod{}, `{` + head + `,"spec":{"priority":"secret"}}`, false, "spec.priority"},
		"labels":       {&boat{}, `{` + head + `,"spec":{"seats":"secret"}}`, true, "spec.seats"},
		"a name twice": {&boat{}, `{` + head + `,"spec":{},"spec":{"seats":"secret"}}`, false, "spec.seats"},
		"unstructured": {&unstructured.Unstructured{}, `{"kind":"Boat",` + head + `,"spec":{"seats":1e999}}`, false,
			"spec.seats"},
		"panics":      {&boat{}, `{` + head + `,"spec":{"sails":[{"color":"panics"}]}}`, true, "spec.sails[0].color"},
		"no name":     {&corev1.Pod{}, `{"metadata":{},"spec":{"priority":"secret"}}`, false, ""},
		"no metadata": {&corev1.Pod{}, `{"metadata":5}`, false, ""},
		"no object":   {&corev1.Pod{}, `5`, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := codec.For(tt.example)
			if err != nil {
				t.Fatal(err)
			}
			u, err := codec.NewSent(c, tt.example, tt.labels).JSON([]byte(tt.json), metav1.TypeMeta{})
			if tt.want == "" {
				if err == nil || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := u.Err(); err == nil || !strings.Contains(err.Error(), tt.want+": ") ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if m := u.GetObjectMeta(); u.Key != "n/a" || u.UID != "u" || u.ResourceVersion != "5" ||
				m.GetLabels()["l"] != "m" {
				t.Errorf("%+v, labels %v", u.Entry, m.GetLabels())
			}
		})
	}
	kindless := codec.NewSent(codec.Unstructured(), &unstructured.Unstructured{}, false)
	if _, err := kindless.JSON([]byte(`{`+head+`}`), metav1.TypeMeta{}); !errors.Is(err, codec.ErrNoKind) {
		t.Errorf("without a kind: %v", err)
	}
}

// TestMsgpackReadsMessages checks that a msgpack codec stores a server's protobuf messages, and decodes them.
func TestMsgpackReadsMessages(t *testing.T) {
	c, err := codec.ForMsgpack(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"l": "m"}}}
	message, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	u, err := codec.NewSent(c, &corev1.Pod{}, true).Protobuf(message, metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := codec.Decode(c, u.Encoding, u.Payload)
	if err != nil || obj.(*corev1.Pod).Labels["l"] != "m" || u.GetObjectMeta().GetLabels()["l"] != "m" {
		t.Errorf("%+v, %v", obj, err)
	}
	boats, err := codec.For(&boat{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := codec.NewSent(boats, &boat{}, false).Protobuf(message, metav1.TypeMeta{Kind: "Boat"}); err == nil ||
		!strings.Contains(err.Error(), `"Boat"`) || !strings.Contains(err.Error(), "JSON") {
		t.Errorf("a type without protobuf: %v", err)
	}
}
