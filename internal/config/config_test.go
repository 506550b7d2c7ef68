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
  changes: 36h
listen: :9470
ready: resumed
schemas: false
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
			},
			{Name: "secrets", Representation: entry.Metadata},
			{Name: "all", Representation: entry.Unstructured},
		},
		PersistSecrets: true, Encryption: &Encryption{KeyFile: "/etc/larder/key", Resources: []string{"secrets"}},
		Changes: 36 * time.Hour, Listen: "127.0.0.1:9470",
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
	want := &Config{File: "sync.yaml", Ready: ReadyDisk, Schemas: true,
		Resources: []Resource{{Name: "po", Representation: entry.Unstructured}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

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

// TestErrors checks that each configuration error names the field, the problem, and the allowed values.
func TestErrors(t *testing.T) {
	const pods = "resources: [{name: pods}]\n"
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{"c: the file is empty; it begins with apiVersion: larder.dev/v1alpha1 and kind: SyncConfig"}},
		{"comment", "# nothing\n", []string{"the file is empty"}},
		{"no YAML", head + "resources:\n\t- x\n", []string{"c: yaml: line 4: found character that cannot start any token"}},
		{"a tab", "x: 1\n\tk: y\n", []string{"c: yaml: line 2: found a tab character"}},
		{"no anchor", "x: 1\ny: *anchor\n", []string{"unknown anchor 'anchor' referenced"}},
		{"a list", "- a\n", []string{"c: it must have fields, apiVersion and kind first; it is of type array"}},
		{"two documents", head + pods + "---\n" + head, []string{"c: it has a second document"}},
		{"a bad second document", head + pods + "---\n\tx\n", []string{"c: yaml: line 5: "}},
		{"no head", pods, []string{"c: apiVersion: Required value: larder.dev/v1alpha1", "c: kind: Required value: SyncConfig"}},
		{"another version", "apiVersion: larder.dev/v9\nkind: SyncConfig\n" + pods,
			[]string{`c: apiVersion: Unsupported value: "larder.dev/v9": supported values: "larder.dev/v1alpha1"`}},
		{"another kind", "apiVersion: larder.dev/v1alpha1\nkind: Pod\n" + pods,
			[]string{`c: kind: Unsupported value: "Pod": supported values: "SyncConfig"`}},
		{"no resources", head, []string{"c: resources: Required value: what to mirror"}},
		{"empty resources", head + "resources: []\n", []string{"c: resources: Required value"}},
		{"null resources", head + "resources:\n", []string{"c: resources: Required value"}},
		{"unknown field", head + pods + "sotre: x\n", []string{`c: unknown field "sotre"`}},
		{"unknown field of a resource", head + "resources:\n- name: pods\n  selector: a\n",
			[]string{`c: unknown field "resources[0].selector"`}},
		{"unknown in it", head + pods + "retention: {change: 7d}\n", []string{`c: unknown field "retention.change"`}},
		{"a field twice", head + pods + "store: a\nstore: b\n", []string{`line 5: key "store" already set in map`}},
		{"a field in another case", head + pods + "Store: a\n", []string{`unknown field "Store"`}},
		{"no name", head + "resources:\n- namespaces: [a]\n", []string{"c: resources[0].name: Required value"}},
		{"two names", head + "resources:\n- name: pods,nodes\n",
			[]string{`c: resources[0].name: Invalid value: "pods,nodes": one element names one resource`}},
		{"a name for a resource", head + "resources:\n- pods\n", []string{"c: resources must not be of type string"}},
		{"a number for text", head + pods + "context: 7\n", []string{"c: context must not be of type number"}},
		{"empty text", head + pods + "context: ''\n", []string{"c: context: Required value: leave it out instead"}},
		{"an empty namespace", head + "resources: [{name: pods, namespaces: ['']}]\n",
			[]string{"c: resources[0].namespaces[0]: Required value"}},
		{"no namespaces", head + "resources: [{name: pods, namespaces: []}]\n",
			[]string{"c: resources[0].namespaces: Required value"}},
		{"text for true", head + pods + "persistSecrets: \"true\"\n",
			[]string{"c: persistSecrets must not be of type string"}},
		{"bad label selector", head + "resources:\n- {name: pods, labelSelector: 'a in'}\n",
			[]string{`c: resources[0].labelSelector: Invalid value: "a in": `}},
		{"bad field selector", head + "resources:\n- {name: pods, fieldSelector: a}\n",
			[]string{`c: resources[0].fieldSelector: Invalid value: "a": `}},
		{"unset variable", head + "resources:\n- {name: pods, fieldSelector: spec.nodeName=$(LARDER_UNSET)}\n",
			[]string{"c: resources[0].fieldSelector: ", "the environment variable LARDER_UNSET is not set"}},
		{"unclosed variable", head + "resources:\n- {name: pods, fieldSelector: 'spec.nodeName=$(X'}\n",
			[]string{"$( has no )"}},
		{"bad namespace", head + "resources:\n- {name: pods, namespaces: [A_b]}\n",
			[]string{`c: resources[0].namespaces[0]: Invalid value: "A_b": `}},
		{"a namespace twice", head + "resources:\n- {name: pods, namespaces: [a, a]}\n",
			[]string{`c: resources[0].namespaces[1]: Duplicate value: "a"`}},
		{"bad representation", head + "resources:\n- {name: pods, representation: typed}\n",
			[]string{`Unsupported value: "typed": supported values: "full", "metadata"`}},
		{"bad size", head + pods + "maxSize: many\n",
			[]string{`c: maxSize: Invalid value: "many": "many" is no size; it is a number of bytes, also with Ki, Mi or Gi`}},
		{"size with B", head + pods + "maxSize: 64MB\n", []string{`"64MB" is no size; write it without the B, as in 64M`}},
		{"a list for a size", head + pods + "maxSize: [1]\n", []string{"c: maxSize must not be of type array"}},
		{"small size", head + pods + "maxSize: 1Mi\n", []string{"1Mi is less than a store needs; 5Mi is the least"}},
		{"negative size", head + pods + "maxSize: -1\n", []string{"-1 is less than"}},
		{"bad age", head + pods + "retention: {changes: soon}\n", []string{
			`c: retention.changes: Invalid value: "soon": "soon" is no time span; it is a number with d, h, m or s`}},
		{"dropped in 2026", head + pods + "retention: {forgetAfter: 30d}\n", []string{`unknown field "retention.forgetAfter"`}},
		{"no age", head + pods + "retention: {changes: 0s}\n", []string{`"0s" is no time span`}},
		{"too long an age", head + pods + "retention: {changes: 99999999999d}\n",
			[]string{`"99999999999d" is too long; 36500d is the most, or never`}},
		{"no key", head + pods + "encryption: {resources: [secrets]}\n",
			[]string{"c: encryption: Required value: either keyFile or keyEnv"}},
		{"two keys", head + pods + "encryption: {keyFile: a, keyEnv: B}\n", []string{"either keyFile or keyEnv"}},
		{"nothing sealed", head + pods + "encryption: {keyFile: a, resources: []}\n",
			[]string{"c: encryption.resources: Required value"}},
		{"bad address", head + pods + "listen: 9470x\n", []string{`"9470x" is no address; it is HOST:PORT`}},
		{"bad port", head + pods + "listen: localhost:99999\n", []string{"is no address"}},
		{"bad ready", head + pods + "ready: always\n",
			[]string{`c: ready: Unsupported value: "always": supported values: "disk", "resumed"`}},
		{"several", head + "resources:\n- nam: pods\nlisten: x\n", []string{
			`c: unknown field "resources[0].nam"`,
			"c: resources[0].name: Required value", "c: listen: Invalid value",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse("c", []byte(tc.text))
			if err == nil || got != nil {
				t.Fatalf("got %+v, %v", got, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got\n%v\nwant %s", err, want)
				}
			}
		})
	}
}

// TestErrorsShowNoContent checks that errors do not quote an unexpected value: it may be a misplaced key.
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

func FuzzParse(f *testing.F) {
	f.Add([]byte(head +
		"store: s\nresources:\n- &a {name: pods, labelSelector: a=b}\n- *a\nretention: {changes: 3d}\n"))
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
