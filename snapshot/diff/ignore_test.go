package diff_test

import (
	"encoding/json"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot/diff"
)

func TestIgnorePaths(t *testing.T) {
	const object = `{"a":{"b":1,"c.d/e":2},"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`
	c := widgets()
	of := contentOf{c, []entry.Entry{recordOf(t, c,
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},`+object[1:])}}
	for path, want := range map[string]string{
		"a":                      `{"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`,
		".a.b":                   `{"a":{"c.d/e":2},"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`,
		`a["c.d/e"]`:             `{"a":{"b":1},"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`,
		"l[*].x":                 `{"a":{"b":1,"c.d/e":2},"l":[{"y":2},{}],"s":"t"}`,
		"l.x":                    `{"a":{"b":1,"c.d/e":2},"l":[{"y":2},{}],"s":"t"}`,
		"l[*]":                   `{"a":{"b":1,"c.d/e":2},"s":"t"}`,
		`["a"]["b"]`:             `{"a":{"c.d/e":2},"l":[{"x":1,"y":2},{"x":3}],"s":"t"}`,
		"s.t.u":                  object,
		"nothing.of.the.kind[*]": object,
	} {
		var got []byte
		none := memory(contentOf{collection: c})
		_, err := diff.Compare(t.Context(), none, memory(of), diff.Options{Ignore: []string{path}},
			func(change diff.Change) (err error) {
				for _, field := range []string{"apiVersion", "kind", "metadata"} {
					delete(change.After.Object, field)
				}
				got, err = json.Marshal(change.After.Object)
				return err
			})
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, want %s; %v", path, got, want, err)
		}
	}
	for _, bad := range []string{"", ".", "a..b", "a.", "a[", "a[]", `a["b]`, `a["b"`, "[\"x\"]y", "/a/b", "a[0]", "a.*", "*.b", `a[""]`} {
		if err := (diff.Options{Ignore: []string{bad}}).Validate(); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
