package codec

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
)

func jsonValue(depth int) *rapid.Generator[any] {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\xff\xfe", "\x00", "a\xc3", "null"}))
	leaf := []*rapid.Generator[any]{
		text.AsAny(),
		rapid.Int64().AsAny(),
		rapid.SampledFrom([]int64{0, -1, -32, -33, 127, 128, -128, -129, 255, 256, 65535, 65536, -32769,
			math.MaxInt32 + 1, math.MinInt32 - 1, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64, math.MinInt64}).AsAny(),
		rapid.Float64().AsAny(),
		rapid.SampledFrom([]float64{0, 1, -1, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.MaxInt64, 0.1}).AsAny(),
		rapid.Bool().AsAny(),
		rapid.SampledFrom([]any{nil, map[string]any(nil), []any(nil), map[string]any{}, []any{}}),
	}
	if depth == 0 {
		return rapid.OneOf(leaf...)
	}
	return rapid.OneOf(append(leaf,
		rapid.MapOfN(text, jsonValue(depth-1), 0, 20).AsAny(),
		rapid.SliceOfN(jsonValue(depth-1), 0, 20).AsAny(),
	)...)
}

func TestUnstructuredIsKeptExactly(t *testing.T) {
	codec := Unstructured()
	rapid.Check(t, func(r *rapid.T) {
		want := &unstructured.Unstructured{Object: map[string]any{
			"kind": "Any", "value": jsonValue(3).Draw(r, "value"),
		}}
		data, err := codec.Append(nil, want)
		if err != nil {
			r.Fatal(err)
		}
		got, err := codec.Decode(data)
		if err != nil || !reflect.DeepEqual(got, want) {
			r.Fatalf("%v: got %#v, want %#v", err, got, want)
		}
	})
}

// TestUnstructuredKeepsTheBitsOfFloats checks 0, -0 and NaN, which reflect.DeepEqual does not compare by their bits.
func TestUnstructuredKeepsTheBitsOfFloats(t *testing.T) {
	for _, want := range []float64{math.Copysign(0, -1), math.NaN(), math.Float64frombits(0x7ff8000000000123), 1} {
		u := &unstructured.Unstructured{Object: map[string]any{"f": want}}
		got := roundTrip(t, Unstructured(), u).(*unstructured.Unstructured).Object["f"]
		if f, ok := got.(float64); !ok || math.Float64bits(f) != math.Float64bits(want) {
			t.Errorf("%v came back as %T %v", want, got, got)
		}
	}
}

func TestUnstructuredWithoutContent(t *testing.T) {
	for _, want := range []*unstructured.Unstructured{{}, {Object: map[string]any{}}} {
		if got := roundTrip(t, Unstructured(), want); !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
	}
}

func TestUnstructuredRefusesOtherTypes(t *testing.T) {
	for _, bad := range []any{
		int(12345), int32(12345), uint64(12345), float32(12345), []string{"12345"}, map[string]string{"a": "12345"},
		[]byte("12345"), struct{ A string }{"12345"},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{
			"a": "before", "spec": map[string]any{"list": []any{nil, map[string]any{"field": bad}}},
		}}
		data, err := Unstructured().Append([]byte("before"), u)
		if !errors.Is(err, errNotJSON) || string(data) != "before" {
			t.Errorf("%T: %v, %q", bad, err, data)
			continue
		}
		if s := err.Error(); !strings.Contains(s, "spec.list[1].field: "+reflect.TypeOf(bad).String()) ||
			strings.Contains(s, "12345") {
			t.Errorf("error %q must name the field and its type, and not the value", s)
		}
	}
}

func nest(depth int) *unstructured.Unstructured {
	var v any = "leaf"
	for i := range depth - 1 {
		if i%2 == 0 {
			v = []any{v}
		} else {
			v = map[string]any{"k": v}
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{"v": v}}
}

func TestUnstructuredDepthIsBounded(t *testing.T) {
	if got := roundTrip(t, Unstructured(), nest(maxDepth)); !reflect.DeepEqual(got, nest(maxDepth)) {
		t.Error("the deepest object that is allowed did not come back")
	}
	for _, u := range []*unstructured.Unstructured{nest(maxDepth + 1), nest(maxDepth + 2)} {
		_, err := Unstructured().Append(nil, u)
		if !errors.Is(err, errTooDeep) || len(err.Error()) > 1000 {
			t.Errorf("%.200v", err)
		}
	}
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
	if _, err := Unstructured().Append(nil, &unstructured.Unstructured{Object: cyclic}); !errors.Is(err, errTooDeep) {
		t.Errorf("a cycle: %.200v", err)
	}
	for _, level := range []string{"\x91", "\x81\xa1k"} {
		data := []byte("\x81\xa1v" + strings.Repeat(level, maxDepth+1) + "\xc0")
		if _, err := Unstructured().Decode(data); !errors.Is(err, errTooDeep) || !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("decode: %v", err)
		}
	}
}

// TestUnstructuredWidthIsNotBounded checks that the number of elements beside each other does not count as depth.
func TestUnstructuredWidthIsNotBounded(t *testing.T) {
	wide := make([]any, 0, 2*maxDepth+2)
	for range maxDepth + 1 {
		wide = append(wide, map[string]any{}, []any{})
	}
	u := &unstructured.Unstructured{Object: map[string]any{"wide": wide}}
	if got := roundTrip(t, Unstructured(), u); !reflect.DeepEqual(got, u) {
		t.Error("it did not come back")
	}
}

// TestUnstructuredConcurrently is for the race detector: goroutines share one codec.
func TestUnstructuredConcurrently(t *testing.T) {
	codec := Unstructured()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2000 {
				want := &unstructured.Unstructured{Object: map[string]any{fmt.Sprint("field", i): "x"}}
				data, err := codec.Append(nil, want)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := codec.Decode(data); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%v: got %#v", err, got)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestUnstructuredCheck(t *testing.T) {
	item := map[string]any{"metadata": map[string]any{"name": "a"}}
	list := &unstructured.Unstructured{Object: map[string]any{"kind": "PodList", "items": []any{item}}}
	named := &unstructured.Unstructured{Object: map[string]any{"kind": "Menu", "metadata": map[string]any{"name": "a"},
		"items": []any{}}}
	for _, c := range []struct {
		obj  kruntime.Object
		want string
	}{
		{named, ""},
		{list, "list"},
		{&unstructured.UnstructuredList{}, "UnstructuredList"},
		{&corev1.Pod{}, "*v1.Pod"},
		{(*unstructured.Unstructured)(nil), "nil"},
		{nil, "<nil>"},
	} {
		err := Unstructured().Check(c.obj)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("Check(%T) = %v, want it to name %q", c.obj, err, c.want)
		}
		if _, appendErr := Unstructured().Append(nil, c.obj); (appendErr == nil) != (err == nil) {
			t.Errorf("Append(%T) = %v, Check says %v", c.obj, appendErr, err)
		}
	}
}

func TestUnstructuredRefusesWhatItDidNotWrite(t *testing.T) {
	for name, data := range map[string]string{
		"nothing":                "",
		"nil":                    "\xc0",
		"an array":               "\x90",
		"a nil slice":            "\xc7\x00\x02",
		"something after it":     "\x80\xc0",
		"a key that is no text":  "\x81\x01\x01",
		"a key twice":            "\x82\xa1a\x01\xa1a\x02",
		"keys out of order":      "\x82\xa1b\x01\xa1a\x02",
		"a 32 bit float":         "\x81\xa1a\xca\x00\x00\x00\x00",
		"bytes":                  "\x81\xa1a\xc4\x01x",
		"a large unsigned":       "\x81\xa1a\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
		"an unknown extension":   "\x81\xa1a\xc7\x00\x07",
		"an extension with data": "\x82\xa1a\xc7\x03\x01\xa1b\x01",
		"a time":                 "\x81\xa1a\xd6\xff\x00\x00\x00\x00",
		"a truncated integer":    "\x81\xa1a\xd3\x00",
		"a truncated text":       "\x81\xa1a\xa5abc",
		"a truncated float":      "\x81\xa1a\xcb\x00",
	} {
		if obj, err := Unstructured().Decode([]byte(data)); !errors.Is(err, entry.ErrDamaged) || obj != nil {
			t.Errorf("%s: %v, %v", name, obj, err)
		}
	}
}

// TestDecodeAllocatesNoMoreThanTheDataIsWorth checks nested arrays that each announce as many elements as there are
// bytes left. The decoder must not allocate memory for all of them.
func TestDecodeAllocatesNoMoreThanTheDataIsWorth(t *testing.T) {
	const size = 1 << 20
	for name, level := range map[string]string{
		"array": "\xdd\x00\x08\x00\x00", "map": "\xdf\x00\x04\x00\x00\xa1k", "text": "\xdb\x7f\xff\xff\xff",
	} {
		data := []byte("\x81\xa1v" + strings.Repeat(level, 5000))
		data = append(data, make([]byte, size)...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Unstructured().Decode(data); !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 100*size {
			t.Errorf("%s: %d bytes allocated for %d", name, n, len(data))
		}
	}
}

func FuzzDecodeUnstructured(f *testing.F) {
	seed, err := Unstructured().Append(nil, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "n": int64(1), "f": 1.5, "l": []any{nil, true, []any(nil)},
		"m": map[string]any{"e": map[string]any{}, "n": map[string]any(nil)}, "s": "\xff",
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(nil))
	f.Add([]byte("\x81\xa1v\xdd\xff\xff\xff\xff"))
	f.Add([]byte("\x81\xa1v\xdf\xff\xff\xff\xff"))
	f.Add([]byte("\x81\xa1v\xdb\xff\xff\xff\xff"))
	f.Add([]byte("\x81\xa1v" + strings.Repeat("\x91", 20000)))
	codec := Unstructured()
	f.Fuzz(func(t *testing.T, data []byte) {
		obj, err := codec.Decode(data)
		if err != nil {
			if !errors.Is(err, entry.ErrDamaged) {
				t.Fatalf("error %v is not ErrDamaged", err)
			}
			return
		}
		if codec.Check(obj) != nil {
			return // A list can be decoded, but not encoded.
		}
		again, err := codec.Append(nil, obj)
		if err != nil || len(again) > len(data) {
			t.Fatalf("%q gives %q, %v", data, again, err)
		}
	})
}

func TestTextTable(t *testing.T) {
	var table textTable
	rapid.Check(t, func(t *rapid.T) {
		for _, s := range rapid.SliceOf(rapid.StringN(0, 100, -1)).Draw(t, "texts") {
			if got := table.name([]byte(s)); got != s {
				t.Fatalf("got %q, want %q", got, s)
			}
			if got := table.value([]byte(s)); got != any(s) {
				t.Fatalf("got %q, want %q", got, s)
			}
		}
	})
}

func TestTextTableAllocatesNothingForWhatIsThere(t *testing.T) {
	var table textTable
	b := []byte("managedFields")
	table.name(b)
	n := testing.AllocsPerRun(10, func() {
		table.name(b)
		table.value(b)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTextTableKeepsRepeatedStrings checks that rare strings do not displace frequent ones.
func TestTextTableKeepsRepeatedStrings(t *testing.T) {
	var table textTable
	lost := 0
	for i := range 100 * textSlots {
		table.name(fmt.Appendf(nil, "pod-%d", i))
		if found, _ := table.find([]byte("metadata")); found == nil {
			lost++
		}
		table.name([]byte("metadata"))
	}
	if lost > 10*textSlots {
		t.Errorf("lost %d times of %d", lost, 100*textSlots)
	}
}

func TestDecodeSharesNoMemoryWithNames(t *testing.T) {
	codec := Unstructured()
	u := &unstructured.Unstructured{Object: map[string]any{"first": "x"}}
	roundTrip(t, codec, u) // roundTrip overwrites the bytes that the name was read from.
	if got := roundTrip(t, codec, u); !reflect.DeepEqual(got, u) {
		t.Errorf("got %#v", got)
	}
}
