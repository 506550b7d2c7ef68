package query

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/cli/clitest"
)

func TestSortKeys(t *testing.T) {
	for _, tc := range []struct {
		name   string
		values []any // values has the field's value in each object; nil is an object without the field
		want   []int
		err    string
	}{
		{"texts", []any{"b", "a", "c"}, []int{1, 0, 2}, ""},
		{"quantities", []any{"1Gi", "2M", "500k", "1024Mi"}, []int{2, 1, 0, 3}, ""},
		{"a quantity and a text", []any{"x", "10", "9"}, []int{2, 1, 0}, ""},
		{"numbers", []any{int64(3), 2.5, int64(-1)}, []int{2, 1, 0}, ""},
		{"booleans", []any{true, false, true}, []int{1, 0, 2}, ""},
		{"missing first, equals as they were", []any{"b", nil, "a", nil, "a"}, []int{1, 3, 2, 4, 0}, ""},
		{"none has it", []any{nil, nil}, []int{0, 1}, ""}, // no object has the field by which to sort (issue 38)
		{"no objects", nil, []int{}, ""},
		{"mixed", []any{"a", int64(1)}, nil, "cannot be compared"},
		{"lists", []any{[]any{"a"}, []any{"b"}}, nil, "a list and a list cannot be compared"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			by, err := newSortField(".spec.x")
			if err != nil {
				t.Fatal(err)
			}
			var keys sortKeys
			for _, v := range tc.values {
				u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
				if v != nil {
					u.Object["spec"] = map[string]any{"x": v}
				}
				if err := keys.add(by, u); err != nil {
					t.Fatal(err)
				}
			}
			got, err := keys.order(by)
			if tc.err != "" {
				clitest.WantError(t, err, tc.err, "")
				return
			}
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestRelaxedPath(t *testing.T) {
	for path, want := range map[string]string{
		"a.b": "{.a.b}", ".a.b": "{.a.b}", "{a.b}": "{.a.b}", "{.a.b}": "{.a.b}", "{.a[0].b}": "{.a[0].b}",
		"": "", "{a": "", "a}": "", "{}": "", "{.a}{.b}": "",
	} {
		got, err := relaxedPath(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", path, got, err)
		}
	}
}
