package codec

import (
	"bytes"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/larder-dev/larder/internal/sample"
)

func decodedJSON(text []byte) ([]byte, error) {
	m := map[string]any{}
	if err := utiljson.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	return Unstructured().Append(nil, &unstructured.Unstructured{Object: m})
}

func appendJSON(dst, text []byte) ([]byte, error) {
	err := transcode(text, func(t *transcoder) (err error) { dst, _, err = t.value(dst, 0); return err })
	return dst, err
}

var oddJSON = []string{
	`{}`, `{"a":1,"b":[1.0,-0,1e5,null,true],"c":{"z":"\u00e9\n","a":""}}`, `{"a":1,"a":2}`,
	`{"a":9223372036854775808}`, `{"a":1e999}`, `{"\u0061":"\ud800","b":"\ud83d\ude00"}`, "{\"a\":\"\xff\"}",
	` {"a" : [ ] } `, `{"a":{}} x`, `{"metadata":{"name":"a","uid":5}}`, `{"kind":"A","metadata":null}`,
}

func TestJSON(t *testing.T) {
	for _, text := range oddJSON {
		testJSON(t, []byte(text))
	}
}

func FuzzJSON(f *testing.F) {
	for _, text := range oddJSON {
		f.Add([]byte(text))
	}
	f.Fuzz(testJSON)
}

// testJSON checks that transcoding JSON gives the same payload as decoding and encoding the object.
func testJSON(t *testing.T, text []byte) {
	want, failed := decodedJSON(text)
	if got, err := appendJSON(nil, text); err == nil && (failed != nil || !bytes.Equal(got, want)) {
		t.Fatalf("%q: got %x, want %x, %v", text, got, want, failed)
	}
	// Decoding the transcoded payload must also give the decoded object.
	u, err := NewSent(Unstructured(), &unstructured.Unstructured{}, true).JSON(text, metav1.TypeMeta{Kind: "Thing"})
	if err != nil {
		return
	}
	if failed != nil {
		t.Fatalf("%q: the decoder refuses it: %v", text, failed)
	}
	obj, err := u.Object()
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	m := obj.(*unstructured.Unstructured)
	if m.GetName() != u.GetObjectMeta().GetName() || string(m.GetUID()) != u.UID ||
		m.GetKind() != u.GroupVersionKind().Kind {
		t.Fatalf("%q: got %+v", text, u)
	}
}

func BenchmarkTranscode(b *testing.B) {
	text := podJSON(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var dst []byte
	for b.Loop() {
		var err error
		if dst, err = appendJSON(dst[:0], text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSent(b *testing.B) {
	text := podJSON(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	s := NewSent(Unstructured(), &unstructured.Unstructured{}, false)
	for b.Loop() {
		if _, err := s.JSON(text, metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeEncode(b *testing.B) {
	text := podJSON(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodedJSON(text); err != nil {
			b.Fatal(err)
		}
	}
}

func podJSON(t testing.TB) []byte {
	_, u := sample.Pod(t)
	text, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
