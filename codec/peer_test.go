package codec

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	peer "github.com/vmihailenco/msgpack/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/internal/msgpack"
)

// peerValue encodes v with a third-party msgpack package, which wrote the payloads of early versions.
func peerValue(e *peer.Encoder, v any) error {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return e.EncodeExtHeader(extNilMap, 0)
		}
		err := e.EncodeMapLen(len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			err = errors.Join(err, e.EncodeString(k), peerValue(e, v[k]))
		}
		return err
	case []any:
		if v == nil {
			return e.EncodeExtHeader(extNilSlice, 0)
		}
		err := e.EncodeArrayLen(len(v))
		for _, x := range v {
			err = errors.Join(err, peerValue(e, x))
		}
		return err
	case int64:
		return e.EncodeInt(v)
	case float64:
		return e.EncodeFloat64(v)
	}
	return e.Encode(v)
}

func peerBytes(t rapid.TB, v any) []byte {
	var b bytes.Buffer
	if err := peerValue(peer.NewEncoder(&b), v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriterWritesWhatTheMsgpackPackageDoes(t *testing.T) {
	codec := Unstructured()
	rapid.Check(t, func(t *rapid.T) {
		m := map[string]any{"kind": "Any", "value": jsonValue(3).Draw(t, "value")}
		got, err := codec.Append(nil, &unstructured.Unstructured{Object: m})
		if want := peerBytes(t, m); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v: got %q, want %q", err, got, want)
		}
	})
}

func TestWriterAndReaderAtTheBoundsOfForms(t *testing.T) {
	t.Parallel()
	var sizes []int
	for _, n := range []int{0, 15, 31, 127, math.MaxUint8, math.MaxUint16} {
		sizes = append(sizes, max(n-1, 0), n, n+1)
	}
	for _, n := range sizes {
		fields, items := map[string]any{}, make([]any, n)
		for i := range n {
			fields[strings.Repeat("k", i%7)+string(rune('a'+i%26))+peerName(i)] = nil
		}
		m := map[string]any{"text": strings.Repeat("x", n), "fields": fields, "list": items, strings.Repeat("n", n+1): true}
		u := &unstructured.Unstructured{Object: m}
		data, err := Unstructured().Append(nil, u)
		if err != nil || !bytes.Equal(data, peerBytes(t, m)) {
			t.Fatalf("%d: %v, or other bytes", n, err)
		}
		if got, err := Unstructured().Decode(data); err != nil || !reflect.DeepEqual(got, u) {
			t.Errorf("%d: %v, or another object", n, err)
		}
		var b bytes.Buffer
		if err := peer.NewEncoder(&b).EncodeBytes(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if got := msgpack.AppendBin(nil, make([]byte, n)); !bytes.Equal(got, b.Bytes()) {
			t.Errorf("bin of %d bytes: other bytes", n)
		}
		if got, err := cutJSON(b.Bytes()); err != nil || len(got) != n {
			t.Errorf("bin of %d bytes: read %d, %v", n, len(got), err)
		}
	}
}

func peerName(i int) string {
	return string([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
}

// TestReaderReadsLongForms checks that the msgpack reader accepts integers and lengths in longer forms than necessary.
func TestReaderReadsLongForms(t *testing.T) {
	for data, want := range map[string]any{
		"\xcc\x05": int64(5), "\xcd\x00\x05": int64(5), "\xce\x00\x00\x00\x05": int64(5),
		"\xcf\x00\x00\x00\x00\x00\x00\x00\x05": int64(5),
		"\xd0\xff":                             int64(-1), "\xd1\xff\xff": int64(-1), "\xd2\xff\xff\xff\xff": int64(-1),
		"\xd3\xff\xff\xff\xff\xff\xff\xff\xff": int64(-1), "\xd3\x7f\xff\xff\xff\xff\xff\xff\xff": int64(math.MaxInt64),
		"\xd9\x01x": "x", "\xda\x00\x01x": "x", "\xdb\x00\x00\x00\x01x": "x",
		"\xdc\x00\x01\xc0": []any{nil}, "\xdd\x00\x00\x00\x01\xc0": []any{nil},
		"\xde\x00\x01\xa1k\xc2": map[string]any{"k": false}, "\xdf\x00\x00\x00\x01\xa1k\xc3": map[string]any{"k": true},
	} {
		u, err := Unstructured().Decode([]byte("\x81\xa1v" + data))
		if err != nil || !reflect.DeepEqual(u.(*unstructured.Unstructured).Object["v"], want) {
			t.Errorf("%q: %v, %v", data, u, err)
		}
	}
}

func TestSkipEndsWhereTheValueDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := peerBytes(t, jsonValue(3).Draw(t, "value"))
		r := msgpack.NewReader(append(slices.Clone(data), 0xc1))
		r.Skip(1)
		if r.Err != nil || r.Pos != len(data) {
			t.Fatalf("%q: at %d, %v", data, r.Pos, r.Err)
		}
		r = msgpack.NewReader(data[:len(data)-1])
		if r.Skip(1); r.Err == nil {
			t.Fatalf("%q without its last byte can be skipped", data)
		}
	})
}
