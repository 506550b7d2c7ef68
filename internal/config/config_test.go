package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/entry"
)

const head = "apiVersion: larder.dev/v1alpha1\nkind: SyncConfig\n"

func TestParse(t *testing.T) {
	t.Setenv("NODE_NAME", "node-7")
	got, err := Parse("/etc/larder/sync.yaml", []byte(head+`
store: cluster.db
maxSize: 512Mi
resources:
- name: pods
  namespaces: [web, shop]
  labelSelector: app in (web, db)
  fieldSelector: spec.nodeName=$(NODE_NAME)
- {name: secrets, representation: metadata}
- name: all
  representation: full
persistSecrets: true
encryption:
  keyFile: key
retention:
  forgetAfter: 7d
  changes: 36h
listen: :9470
ready: resumed
kubeconfig: /etc/larder/kubeconfig
context: edge
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		File: "/etc/larder/sync.yaml", Store: "/etc/larder/cluster.db", MaxSize: 512 << 20,
		Resources: []Resource{
			{
				Name: "pods", Namespaces: []string{"web", "shop"}, LabelSelector: "app in (web, db)",
				FieldSelector: "spec.nodeName=node-7", Representation: entry.Unstructured,
				Line: 7,
			},
			{Name: "secrets", Representation: entry.Metadata, Line: 11},
			{Name: "all", Representation: entry.Unstructured, Line: 12},
		},
		PersistSecrets: true, Encryption: &Encryption{KeyFile: "/etc/larder/key", Resources: []string{"secrets"}, Line: 16},
		Retention: Retention{ForgetAfter: 7 * 24 * time.Hour, Changes: 36 * time.Hour}, Listen: "127.0.0.1:9470",
		Ready:      ReadyResumed,
		Kubeconfig: "/etc/larder/kubeconfig", Context: "edge",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDefaults(t *testing.T) {
	got, err := Parse("sync.yaml", []byte(head+"resources: [{name: po}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{File: "sync.yaml", Ready: ReadyDisk,
		Resources: []Resource{{Name: "po", Representation: entry.Unstructured, Line: 3}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Aliases are YAML, and so is JSON.
func TestParseForms(t *testing.T) {
	for _, text := range []string{
		head + "resources:\n- &web {name: pods, labelSelector: app=web}\n- *web\n",
		`{"apiVersion": "larder.dev/v1alpha1", "kind": "SyncConfig", "resources": [{"name": "pods", "labelSelector": "app=web"}]}`,
	} {
		got, err := Parse("c", []byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, r := range got.Resources {
			if r.Name != "pods" || r.LabelSelector != "app=web" {
				t.Errorf("%+v", r)
			}
		}
	}
}

// TestErrors: each error says where, what, and what is allowed.
func TestErrors(t *testing.T) {
	const pods = "resources: [{name: pods}]\n"
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{"c: the file is empty; it begins with apiVersion: larder.dev/v1alpha1 and kind: SyncConfig"}},
		{"comment", "# nothing\n", []string{"the file is empty"}},
		{"no YAML", head + "resources:\n\t- x\n", []string{"c:4:1: this is no YAML: "}},
		{"a list", "- a\n", []string{"c:1:1: it must have fields: apiVersion, kind, store,", "it is a list"}},
		{"two documents", head + pods + "---\n" + head, []string{"c:4:1: a second document begins here"}},
		{"no head", pods, []string{"c:1:1: apiVersion is required: larder.dev/v1alpha1",
			"c:1:1: kind is required: SyncConfig"}},
		{"another version", "apiVersion: larder.dev/v9\nkind: SyncConfig\n" + pods,
			[]string{`c:1:13: apiVersion: unknown value "larder.dev/v9"; allowed are larder.dev/v1alpha1`}},
		{"another kind", "apiVersion: larder.dev/v1alpha1\nkind: Pod\n" + pods,
			[]string{`c:2:7: kind: unknown value "Pod"; allowed are SyncConfig`}},
		{"no resources", head, []string{"c:1:1: resources is required"}},
		{"empty resources", head + "resources: []\n",
			[]string{"c:3:12: resources: it must be a list of resources; it is empty"}},
		{"null resources", head + "resources:\n", []string{"resources: it must be a list of resources; it is empty"}},
		{"unknown field", head + pods + "sotre: x\n",
			[]string{"c:4:1: sotre: unknown field; allowed are apiVersion, kind, store, maxSize"}},
		{"unknown field of a resource", head + "resources:\n- name: pods\n  selector: a\n",
			[]string{
				"c:5:3: resources[0].selector: unknown field; allowed are name, namespaces, labelSelector, fieldSelector, " +
					"representation"}},
		{"unknown in it", head + pods + "retention: {change: 7d}\n",
			[]string{"c:4:13: retention.change: unknown field; allowed are forgetAfter, changes"}},
		{"merge key", head + "resources:\n- <<: {name: pods}\n", []string{"resources[0].<<: unknown field"}},
		{"a field twice", head + pods + "store: a\nstore: b\n", []string{"c:5:1: store: this field is given twice"}},
		{"no name", head + "resources:\n- namespaces: [a]\n", []string{"c:4:3: resources[0]: name is required"}},
		{"two names", head + "resources:\n- name: pods,nodes\n",
			[]string{`c:4:9: resources[0].name: "pods,nodes" is no resource's name`}},
		{"a name for a resource", head + "resources:\n- pods\n",
			[]string{"c:4:3: resources[0]: it must have fields: name,", "it is text"}},
		{"a number for text", head + pods + "context: 7\n",
			[]string{"c:4:10: context: it must be text; it is a number; put it in quotes if it is meant"}},
		{"empty text", head + pods + "context: ''\n", []string{"context: it must be text; it is empty"}},
		{"text for true", head + pods + "persistSecrets: \"true\"\n",
			[]string{"c:4:17: persistSecrets: it must be true or false; it is text"}},
		{"yes for true", head + pods + "persistSecrets: yes\n",
			[]string{"persistSecrets: it must be true or false; it is text"}},
		{"bad label selector", head + "resources:\n- {name: pods, labelSelector: 'a in'}\n",
			[]string{"c:4:31: resources[0].labelSelector: it is no selector: "}},
		{"bad field selector", head + "resources:\n- {name: pods, fieldSelector: a}\n",
			[]string{"resources[0].fieldSelector: it is no selector: "}},
		{"unset variable", head + "resources:\n- {name: pods, fieldSelector: spec.nodeName=$(LARDER_UNSET)}\n",
			[]string{"resources[0].fieldSelector: the environment variable LARDER_UNSET: it is not set"}},
		{"unclosed variable", head + "resources:\n- {name: pods, fieldSelector: 'spec.nodeName=$(X'}\n",
			[]string{"$( has no )"}},
		{"bad namespace", head + "resources:\n- {name: pods, namespaces: [A_b]}\n",
			[]string{`c:4:29: resources[0].namespaces[0]: "A_b" is no namespace's name`}},
		{"a namespace twice", head + "resources:\n- {name: pods, namespaces: [a, a]}\n",
			[]string{"the namespace a is given twice"}},
		{"bad representation", head + "resources:\n- {name: pods, representation: typed}\n",
			[]string{`unknown value "typed"; allowed are full, metadata`}},
		{"bad size", head + pods + "maxSize: many\n",
			[]string{`c:4:10: maxSize: "many" is no size; it is a number of bytes, also with Ki, Mi or Gi, such as 512Mi`}},
		{"size with B", head + pods + "maxSize: 64MB\n",
			[]string{`c:4:10: maxSize: "64MB" is no size; write it without the B, as in 64M`}},
		{"a list for a size", head + pods + "maxSize: [1]\n",
			[]string{"c:4:10: maxSize: it must be a size such as 512Mi; it is a list"}},
		{"small size", head + pods + "maxSize: 1Mi\n",
			[]string{"c:4:10: maxSize: 1Mi is less than a store needs; 5Mi is the least"}},
		{"negative size", head + pods + "maxSize: -1\n", []string{"maxSize: -1 is less than"}},
		{"bad age", head + pods + "retention: {forgetAfter: soon}\n",
			[]string{
				`c:4:26: retention.forgetAfter: "soon" is no time span; it is a number with d, h, m or s, such as 30d or 36h, or never`}},
		{"no age", head + pods + "retention: {forgetAfter: 0s}\n", []string{`"0s" is no time span`}},
		{"too long an age", head + pods + "retention: {forgetAfter: 99999999999d}\n",
			[]string{`"99999999999d" is too long; 36500d is the most, or never`}},
		{"no key", head + pods + "encryption: {resources: [secrets]}\n",
			[]string{"c:4:13: encryption: either keyFile or keyEnv is required"}},
		{"two keys", head + pods + "encryption: {keyFile: a, keyEnv: B}\n", []string{"either keyFile or keyEnv is required"}},
		{"bad address", head + pods + "listen: 9470x\n", []string{`c:4:9: listen: "9470x" is no address; it is HOST:PORT`}},
		{"bad port", head + pods + "listen: localhost:99999\n", []string{"is no address"}},
		{"bad ready", head + pods + "ready: always\n",
			[]string{`c:4:8: ready: unknown value "always"; allowed are disk, resumed`}},
		{"several", head + "resources:\n- nam: pods\nready: 1\nlisten: x\n", []string{
			"c:4:3: resources[0].nam: unknown field", "c:4:3: resources[0]: name is required", "c:5:8: ready: it must be text",
			"c:6:9: listen: ",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse("c", []byte(tc.text))
			var all Errors
			if !errors.As(err, &all) || got != nil {
				t.Fatalf("got %+v, %v", got, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got\n%v\nwant %s", err, want)
				}
			}
			for i := 1; i < len(all); i++ {
				if all[i].Line < all[i-1].Line {
					t.Errorf("not in the file's order:\n%v", err)
				}
			}
		})
	}
}

// TestSyntaxErrors: what is no YAML is told with the line, also where the parser does not say it, or counts otherwise.
func TestSyntaxErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a: [1\nb: 2\n":              "c:2:1: this is no YAML: did not find expected ',' or ']'",
		"x: 1\ny: 2\nr: [1,\nb: 2\n": "c:3:1: this is no YAML: did not find expected ',' or ']'",
		"x: 1\ny: 2\nz: {1\n":        "c:3:1: this is no YAML: did not find expected ',' or '}'",
		"a: 1\nr:\n- n: p\n m: x\n":  "c:4:1: this is no YAML: did not find expected key",
		"a: b: c\n":                  "c:1:1: this is no YAML: mapping values are not allowed",
		"x: 1\nk: y: z\n":            "c:2:1: this is no YAML: mapping values are not allowed",
		"\tk: y\n":                   "c:1:1: this is no YAML: found character that cannot start any token",
		"x: 1\n\tk: y\n":             "c:2:1: this is no YAML: found a tab character",
		"x: 1\ny: 2\nk: \"y\n":       "c:3:1: this is no YAML: found unexpected end of stream",
		"x: 1\nb\nc: 2\n":            "c:2:1: this is no YAML: could not find expected ':'",
		"x: 1\ny: 2\nb: \x01\n":      "c:3:1: this is no YAML: control characters are not allowed",
		"x: 1\ny: 2\nb: \xff\n":      "c:3:1: this is no YAML: invalid leading UTF-8 octet",
		"x: 1\ny: *anchor\n":         "c:2:1: this is no YAML: unknown anchor 'anchor' referenced",
		head + "resources: [{name: pods}]\n---\nx: 1\ny: *a\n": "c:6:1: this is no YAML: unknown anchor 'a' referenced",
	} {
		if _, err := Parse("c", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// A message about a value that should not be there does not show it: it may be a key in the wrong place.
func TestErrorsShowNoContent(t *testing.T) {
	_, err := Parse("c",
		[]byte(head+"resources: [{name: pods}]\nencryption: c2VjcmV0LWtleQ==\npersistSecrets: c2VjcmV0LWtleQ==\n"))
	if err == nil || strings.Contains(err.Error(), "c2VjcmV0") {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sync.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Error(err)
	}
	if err := os.WriteFile(path, make([]byte, maxBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "is it the right file?") {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte(head+"store: s.db\nresources: [{name: pods}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(path); err != nil || c.Store != filepath.Join(dir, "s.db") {
		t.Error(c, err)
	}
}

func TestRestartNeeded(t *testing.T) {
	parse := func(rest string) *Config {
		c, err := Parse("c", []byte(head+"resources: [{name: pods}]\n"+rest))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for rest, want := range map[string]string{
		"":                               "",
		"persistSecrets: true\n":         "",
		"ready: resumed\n":               "",
		"store: x\nmaxSize: 64Mi\n":      "store maxSize",
		"listen: :1\ncontext: c\n":       "listen context",
		"kubeconfig: k\n":                "kubeconfig",
		"encryption: {keyEnv: K}\n":      "encryption",
		"retention: {forgetAfter: 1h}\n": "retention",
	} {
		if got := strings.Join(parse("").RestartNeeded(parse(rest)), " "); got != want {
			t.Errorf("%q: got %q, want %q", rest, got, want)
		}
	}
	same := "encryption: {keyEnv: K}\n"
	if got := parse(same).RestartNeeded(parse(same)); got != nil {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head +
		"store: s\nresources:\n- &a {name: pods, labelSelector: a=b}\n- *a\nretention: {forgetAfter: 3d}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("? {}\n: x\n"))
	f.Add([]byte(head + "resources: &r\n- *r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("c", data)
		if (c == nil) == (err == nil) {
			t.Errorf("%v, %v", c, err)
		}
	})
}
