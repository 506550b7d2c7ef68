package diff_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

func widgets() snapshot.Collection {
	return collectionOf(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, "Widget",
		entry.Unstructured)
}

// drawObject draws an object of few fields and values, so that two objects are often equal.
func drawObject(t *rapid.T, name string) map[string]any {
	leaf := rapid.SampledFrom([]any{"x", "y", int64(1), int64(9007199254740993), int64(9007199254740992), 0.5, true,
		[]any{int64(1)}, []any{}, map[string]any{}})
	object := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{
		"name": name, "namespace": "a", "uid": rapid.SampledFrom([]string{"u1", "u1", "u1", "u2"}).Draw(t, "uid"),
		"resourceVersion": rapid.StringMatching("[1-9]").Draw(t, "rv"),
	}}
	for _, field := range []string{"spec", "status"} {
		object[field] = rapid.MapOfN(rapid.SampledFrom([]string{"p", "q"}), leaf, 0, 2).Draw(t, field)
	}
	return object
}

func drawWidgets(t *rapid.T) contentOf {
	of := contentOf{collection: widgets()}
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), 0, 6, rapid.ID).Draw(t,
		"names")
	slices.Sort(names)
	for _, name := range names {
		u := &unstructured.Unstructured{Object: drawObject(t, name)}
		data, err := codec.Unstructured().Append(nil, u)
		if err != nil {
			t.Fatal(err)
		}
		of.records = append(of.records, entry.Entry{
			Key: "a/" + name, UID: string(u.GetUID()), ResourceVersion: u.GetResourceVersion(), Encoding: "msgpack",
			Payload: data,
		})
	}
	return of
}

func memory(of ...contentOf) memorySource { return of }

var errStopped = errors.New("stopped")

type seen struct {
	kind diff.Kind
	key  string
}

// naive is the model of Compare: it compares two collections of widgets without streaming, encodings or patches.
func naive(a, b map[string]map[string]any, ignore ...string) (out []seen) {
	strip := func(object map[string]any) map[string]any {
		object = (&unstructured.Unstructured{Object: object}).DeepCopy().Object
		delete(object["metadata"].(map[string]any), "resourceVersion")
		for _, field := range ignore {
			delete(object, field)
		}
		return object
	}
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		before, inA := a[key]
		after, inB := b[key]
		switch {
		case !inA:
			out = append(out, seen{diff.Added, key})
		case !inB:
			out = append(out, seen{diff.Removed, key})
		case before["metadata"].(map[string]any)["uid"] != after["metadata"].(map[string]any)["uid"]:
			out = append(out, seen{diff.Replaced, key})
		case !reflect.DeepEqual(strip(before), strip(after)):
			out = append(out, seen{diff.Changed, key})
		}
	}
	return out
}

func TestDiffAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := memory(drawWidgets(t)), memory(drawWidgets(t))
		inA, inB := readObjects(t, a), readObjects(t, b)
		ignore, fields := []string(nil), []string(nil)
		if rapid.Bool().Draw(t, "ignore status") {
			ignore, fields = append(diff.DefaultIgnore(), "status"), []string{"status"}
		}
		var got []seen
		report, err := diff.Compare(t.Context(), a, b, diff.Options{Ignore: ignore}, func(c diff.Change) error {
			got = append(got, seen{c.Kind, c.Key})
			checkPatch(t, c)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := naive(inA, inB, fields...)
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		n := map[diff.Kind]int{}
		for _, s := range want {
			n[s.kind]++
		}
		union := maps.Clone(inA)
		maps.Copy(union, inB)
		wanted := diff.Report{Added: n[diff.Added], Removed: n[diff.Removed], Changed: n[diff.Changed],
			Replaced: n[diff.Replaced], Same: len(union) - len(want)}
		if !reflect.DeepEqual(report, wanted) || report.Equal() != (len(want) == 0) {
			t.Fatalf("%+v, want %+v", report, wanted)
		}
	})
}

func readObjects(t *rapid.T, src memorySource) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, one := range src {
		c := one.collection
		d := snapshot.NewDecoder(c)
		err := src.Records(t.Context(), c.Identity, func(r entry.Entry) error {
			u, err := d.Decode(r)
			out[r.Key] = u.Object
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func checkPatch(t *rapid.T, c diff.Change) {
	if c.Kind == diff.Added || c.Kind == diff.Removed {
		if c.Patch != nil || (c.Before == nil) != (c.Kind == diff.Added) ||
			(c.After == nil) != (c.Kind == diff.Removed) {
			t.Fatalf("%+v", c)
		}
		return
	}
	before, err := c.Before.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	after, err := c.After.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	patched, err := jsonpatch.MergePatch(before, c.Patch)
	if err != nil {
		t.Fatal(err)
	}
	if !jsonEqual(patched, after) {
		t.Fatalf("%s patched by %s is %s, want %s", before, c.Patch, patched, after)
	}
}

// jsonEqual compares two JSON values. Numbers are equal only if all of their digits are.
func jsonEqual(a, b []byte) bool {
	var values [2]any
	for i, text := range [][]byte{a, b} {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// TestDiffAcrossRepresentations checks that a typed and an unstructured collection of the same objects are equal.
func TestDiffAcrossRepresentations(t *testing.T) {
	texts := []string{
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"x","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"l":"m"}},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"500m"}},"ports":[{"containerPort":80}]}],"terminationGracePeriodSeconds":30},"status":{"phase":"Running","podIP":"10.0.0.1"}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"x","uid":"v"},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`,
	}
	of := func(r entry.Representation, texts ...string) contentOf {
		out := contentOf{collection: collectionOf(core("pods"), "Pod", r)}
		for _, text := range texts {
			out.records = append(out.records, recordOf(t, out.collection, text))
		}
		return out
	}
	typed := memory(of(entry.Typed, texts...))
	for _, other := range []contentOf{of(entry.Unstructured, texts...), of(entry.Typed, texts...)} {
		for _, pair := range [][2]snapshot.Source{{typed, memory(other)}, {memory(other), typed}} {
			report, err := diff.Compare(t.Context(), pair[0], pair[1], diff.Options{},
				func(c diff.Change) error { return fmt.Errorf("%s: %s", c.Key, c.Patch) })
			if err != nil || !report.Equal() || report.Same != 2 {
				t.Errorf("%+v, %v", report, err)
			}
		}
	}
	changed := memory(of(entry.Unstructured, texts[0], strings.Replace(texts[1], "i:1", "i:2", 1)))
	var patches []string
	report, err := diff.Compare(t.Context(), typed, changed, diff.Options{},
		func(c diff.Change) error { patches = append(patches, string(c.Patch)); return nil })
	if err != nil || report.Changed != 1 || patches[0] != `{"spec":{"containers":[{"image":"i:2","name":"c"}]}}` {
		t.Errorf("%+v, %v, %q", report, err, patches)
	}
}

func TestDiffMatchesCollections(t *testing.T) {
	col := func(resource, namespace string, r entry.Representation) contentOf {
		c := collectionOf(core(resource), "", r)
		c.Identity.Namespace = namespace
		return contentOf{c, nil}
	}
	a := memory(col("pods", "", entry.Typed), col("pods", "", entry.Unstructured), col("nodes", "", entry.Typed),
		col("secrets", "x", entry.Typed), col("events", "", entry.Typed))
	b := memory(col("nodes", "", entry.Unstructured), col("pods", "", entry.Unstructured),
		col("secrets", "y", entry.Typed), col("events", "", entry.Metadata))
	report, err := diff.Compare(t.Context(), a, b, diff.Options{}, func(diff.Change) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	names := func(cs []snapshot.Collection) (out []string) {
		for _, c := range cs {
			out = append(out, c.Identity.String())
		}
		return out
	}
	if got := names(report.OnlyInA); !slices.Equal(got, []string{"pods.v1", "secrets.v1 in namespace x", "events.v1"}) {
		t.Errorf("only in a: %q", got)
	}
	if got := names(report.OnlyInB); !slices.Equal(got, []string{"secrets.v1 in namespace y", "events.v1 (metadata)"}) {
		t.Errorf("only in b: %q", got)
	}
	if report.Equal() {
		t.Error("they are said to be equal")
	}
}

func TestDiffOfUnknownTypes(t *testing.T) {
	c := collectionOf(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, "Widget",
		entry.Typed)
	of := func(payload, key string) memorySource {
		return memorySource{{c, []entry.Entry{{Key: "a", UID: "u", Encoding: "protobuf", Payload: []byte(payload)},
			{Key: key, UID: "u", Encoding: "protobuf"}}}}
	}
	if report, err := diff.Compare(t.Context(), of("x", "b"), of("x", "c"), diff.Options{},
		func(diff.Change) error { return nil }); err != nil || report.Same != 1 || report.Added != 1 ||
		report.Removed != 1 {
		t.Errorf("what is the same, or only in one, need not be decoded: %+v, %v", report, err)
	}
	report, err := diff.Compare(t.Context(), of("x", "b"), of("y", "b"), diff.Options{},
		func(c diff.Change) error {
			if c.Kind != diff.Changed || c.Patch != nil || c.Before != nil || c.After != nil {
				t.Errorf("%+v", c)
			}
			return nil
		})
	if err != nil || report.Changed != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestDiffEnds checks that Compare returns errors of its callback and of its sources, and of records out of order.
func TestDiffEnds(t *testing.T) {
	a, b := memory(contentOf{widgets(), nil}), memory(contentOf{widgets(), []entry.Entry{
		recordOf(t, widgets(), `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`),
		recordOf(t, widgets(), `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"}}`),
	}})
	n := 0
	if _, err := diff.Compare(t.Context(), a, b, diff.Options{},
		func(diff.Change) error { n++; return errStopped }); !errors.Is(err, errStopped) || n != 1 {
		t.Errorf("%v, %d calls", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := diff.Compare(ctx, a, b, diff.Options{}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	disorder := memorySource{{widgets(), []entry.Entry{{Key: "b"}, {Key: "a"}}}}
	if _, err := diff.Compare(t.Context(), a, disorder, diff.Options{},
		func(diff.Change) error { return nil }); !errors.Is(err, snapshot.ErrOrder) {
		t.Error(err)
	}
	if _, err := diff.Compare(t.Context(), a, b, diff.Options{Ignore: []string{""}}, nil); err == nil ||
		!strings.Contains(err.Error(), "write it as") {
		t.Error(err)
	}
}
