package query

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

func TestDiffShowsChangedFields(t *testing.T) {
	for name, tc := range map[string]struct{ before, after, want string }{
		"a field of a named item": {
			"spec: {containers: [{name: a, image: 'img:2'}, {name: b, image: x}]}",
			"spec: {containers: [{name: b, image: x}, {name: a, image: 'img:99'}]}",
			"  spec.containers[name=a]\n    - image: img:2\n    + image: img:99\n",
		},
		"neighbours share their path": {
			"spec: {replicas: 3, paused: true, other: 1}", "spec: {replicas: 5, other: 1, tier: {a: 1}}",
			"  spec\n    - paused: true\n    - replicas: 3\n    + replicas: 5\n    + tier:\n    +   a: 1\n",
		},
		"items that come and go": {
			"env: [{name: A, value: '1'}, {name: B, value: '2'}]", "env: [{name: B, value: '2'}, {name: C, value: '3'}]",
			"  env\n    - - name: A\n    -   value: \"1\"\n    + - name: C\n    +   value: \"3\"\n",
		},
		"the order alone": {
			"env: [{name: A}, {name: B}]", "env: [{name: B}, {name: A}]",
			"  env\n    - - name: A\n    - - name: B\n    + - name: B\n    + - name: A\n",
		},
		"a list of words": {
			"args: [a, --old, c]", "args: [a, --new, --newer, c]",
			"  args\n    - - --old\n    + - --new\n    + - --newer\n",
		},
		"items with no name": {
			"rules: [{hosts: [a]}, {hosts: [b]}]", "rules: [{hosts: [a]}, {hosts: [c]}]",
			"  rules[1].hosts\n    - - b\n    + - c\n",
		},
		"a text of several lines": {
			"data: {conf: \"one\\ntwo\\nthree\\n\"}", "data: {conf: \"one\\n2\\nthree\\n\"}",
			"  data.conf\n    - two\n    + 2\n",
		},
		"a name with dots": {
			"metadata: {annotations: {example.com/seen: '1'}}", "metadata: {annotations: {example.com/seen: '2'}}",
			"  metadata.annotations\n    - example.com/seen: \"1\"\n    + example.com/seen: \"2\"\n",
		},
		"another type":    {"a: {b: 1}", "a: [1]", "  - a:\n  -   b: 1\n  + a:\n  + - 1\n"},
		"null and absent": {"a: null", "b: null", "  - a: null\n  + b: null\n"},
		"what a terminal must not get": {
			"a: x", "a: \"\\e[2J\"", "  - a: x\n  + a: \"\\e[2J\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := changesOf(t, clitest.Pods, tc.before, tc.after, false)
			if d := cmp.Diff("changed pods a/x\n"+tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDiffInColour(t *testing.T) {
	want := "\x1b[33mchanged pods a/x\x1b[0m\n  \x1b[31m- a: 1\x1b[0m\n  \x1b[32m+ a: 2\x1b[0m\n"
	if got := changesOf(t, clitest.Pods, "a: 1", "a: 2", true); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDiffConcealsSecrets(t *testing.T) {
	got := changesOf(t, input.Secrets,
		"{data: {password: b2xk, same: eA==}, metadata: {annotations: {last: old}, labels: {l: a}}}",
		"{data: {password: bmV3, same: eA==, more: bmV3}, metadata: {annotations: {last: new}, labels: {l: b}}, "+
			"stringData: {t: new}}", false)
	want := "changed secrets a/x\n  data\n    + more: ***\n    - password: ***\n    + password: ***\n" +
		"  metadata.annotations\n    - last: ***\n    + last: ***\n  metadata.labels\n    - l: a\n    + l: b\n  + " +
		"stringData: ***\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDiffConcealsSealed(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		conceals := compare.Concealed(snapshot.Collection{
			Identity: entry.Identity{GroupVersionResource: clitest.Pods.GroupVersionResource},
			Sealed:   sealed})
		got := compare.Fields(map[string]any{"spec": map[string]any{"a": "old", "l": []any{"old"}}},
			map[string]any{"spec": map[string]any{"a": "new", "l": []any{"new"}}}, conceals)
		want := []compare.Field{{Path: "spec", Before: []string{"a: old"}, After: []string{"a: new"}},
			{Path: "spec.l", Before: []string{"- old"}, After: []string{"- new"}}}
		if sealed {
			want = []compare.Field{{Path: "spec", Before: []string{"a: ***"}, After: []string{"a: ***"}},
				{Path: "spec", Before: []string{"l: ***"}, After: []string{"l: ***"}}}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("sealed %t: %s", sealed, d)
		}
	}
}

func changesOf(t *testing.T, r input.Resource, before, after string, colours bool) string {
	t.Helper()
	parse := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", " ")), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	var out bytes.Buffer
	err := (&diffChanges{diffLines{w: &out}, colours}).change(diff.Change{
		Kind: diff.Changed, Key: "a/x", Before: parse(before), After: parse(after),
		Collection: snapshot.Collection{Identity: entry.Identity{GroupVersionResource: r.GroupVersionResource},
			Resource: r.ResourceInfo},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPatchOfASecret(t *testing.T) {
	c := diff.Change{
		Kind:       diff.Changed,
		Collection: snapshot.Collection{Identity: entry.Identity{GroupVersionResource: input.Secrets.GroupVersionResource}},
		Patch: []byte(
			`{"data":{"a":"c2VjcmV0","b":null},"stringData":"c2VjcmV0",` +
				`"metadata":{"annotations":{"x":"c2VjcmV0"},"labels":{"l":"1"}}}`),
	}
	got, err := patchOf(c)
	want := map[string]any{
		"data": map[string]any{"a": compare.Hidden, "b": nil}, "stringData": compare.Hidden,
		"metadata": map[string]any{"annotations": map[string]any{"x": compare.Hidden}, "labels": map[string]any{"l": "1"}},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%s, %v", d, err)
	}
	c.Collection.Identity.Resource = "configmaps"
	if got, err := patchOf(c); err != nil || got.(map[string]any)["stringData"] != "c2VjcmV0" {
		t.Errorf("a config map's: %v, %v", got, err)
	}
}
