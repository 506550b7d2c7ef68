package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/snapshot"
)

// widgetsOf returns a collection of widgets with the given keys. Its last contact with the server was hours ago.
func widgetsOf(hours int, change func(*snapshot.Collection), keys ...string) written {
	c := snapshot.Collection{
		Identity: entry.Identity{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1",
			Resource: "widgets"}, Representation: entry.Unstructured},
		Resource: entry.ResourceInfo{Kind: "Widget", Singular: "widget", Namespaced: true}, ResourceVersion: "7",
		Complete:    true,
		LastContact: time.Now().Add(-time.Duration(hours) * time.Hour),
	}
	if change != nil {
		change(&c)
	}
	return written{c, keys}
}

// TestExportOfOverlappingCollections checks exports of files with several collections of one resource. An object in
// several collections is exported once. An object that is missing from a newer complete collection is not exported.
func TestExportOfOverlappingCollections(t *testing.T) {
	inWeb := func(c *snapshot.Collection) { c.Identity.Namespace = "web" }
	inDB := func(c *snapshot.Collection) { c.Identity.Namespace = "db" }
	labelled := func(c *snapshot.Collection) { c.Identity.LabelSelector = "a=b" }
	byField := func(c *snapshot.Collection) { c.Identity.FieldSelector = "metadata.name=x" }
	sharded := func(c *snapshot.Collection) {
		c.Identity.ShardSelector = "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000008')"
	}
	unfinished := func(c *snapshot.Collection) { c.Complete = false }
	metadata := func(c *snapshot.Collection) { c.Identity.Representation = entry.Metadata }
	older := func(c *snapshot.Collection) { c.Identity.Version = "v1alpha1" }
	typed := func(c *snapshot.Collection) { c.Identity.Representation = entry.Typed }
	for name, tc := range map[string]struct {
		all  []written
		want string // want has the expected exported objects, with the scopes of their collections
		note string // note is the only expected note on standard error; "" expects none
	}{
		"all after a namespace": {all: []written{widgetsOf(9, inWeb, "web/gone", "web/x"),
			widgetsOf(1, nil, "db/x", "web/x")}, want: "db/x:all web/x:all"},
		"a namespace after all": {all: []written{widgetsOf(1, inWeb, "web/x"),
			widgetsOf(9, nil, "db/x", "web/gone", "web/x")}, want: "db/x:all web/x:namespace web"},
		"two namespaces, and a part of all": {
			all: []written{widgetsOf(9, inWeb, "web/x"), widgetsOf(9, inDB, "db/x"),
				widgetsOf(1, unfinished, "db/gone", "n/x", "web/x")},
			want: "db/x:namespace db n/x:all web/x:namespace web",
			note: "note: FILE, widgets.example.com: the first list has not been finished",
		},
		"unfinished, of what is there whole": {all: []written{widgetsOf(8, nil, "web/x"), widgetsOf(9, inWeb, "web/x"),
			widgetsOf(20, func(c *snapshot.Collection) { inWeb(c); labelled(c); unfinished(c) }, "web/gone")},
			want: "web/x:all"},
		"selectors and shards before all": {
			all: []written{widgetsOf(9, labelled, "web/gone", "web/x"), widgetsOf(9, byField, "web/gone", "web/x"),
				widgetsOf(9, sharded, "web/gone"), widgetsOf(1, nil, "web/x")},
			want: "web/x:all",
		},
		"a selector after all": {all: []written{widgetsOf(1, labelled, "web/new", "web/x"), widgetsOf(9, nil, "web/x")},
			want: "web/x:all",
			note: "note: not exported: widgets.example.com (-l a=b): newer, but a part of what is exported"},
		"selectors alone: the newest": {all: []written{widgetsOf(9, labelled, "web/x", "web/y"),
			widgetsOf(1, byField, "web/x")}, want: "web/x:--field-selector metadata.name=x web/y:-l a=b"},
		"metadata before whole objects": {all: []written{widgetsOf(9, metadata), widgetsOf(1, nil, "web/x")},
			want: "web/x:all"},
		"an older version": {all: []written{widgetsOf(9, older, "web/gone", "web/x"),
			widgetsOf(1, nil, "web/x")}, want: "web/x:all"},
		"what cannot be decoded comes from elsewhere": {
			all:  []written{widgetsOf(1, typed, "web/x"), widgetsOf(9, nil, "web/gone", "web/x")},
			want: "web/x:all",
			note: "note: not exported: 1 object of widgets.example.com, of a Go program's own type that larder cannot decode",
		},
	} {
		for _, turned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, turned), func(t *testing.T) {
				dir := t.TempDir()
				file := filepath.Join(dir, "s.larder")
				if turned {
					tc.all = slices.Clone(tc.all)
					slices.Reverse(tc.all)
				}
				writeSnapshot(t, file, snapshot.Header{}, tc.all...)
				note := ""
				if tc.note != "" {
					note = strings.Replace(tc.note, "FILE", file, 1)
				}
				n := len(strings.Split(tc.want, "/")) - 1
				code, out, errs := runs(t.Context(), "snapshot", "export", "-", "--from", file)
				if code != command.OK || !sameNote(errs, note) {
					t.Errorf("lines: %d %q %q", code, out, errs)
				}
				if got := exportedLines(t, out); got != tc.want {
					t.Errorf("lines: got %s, want %s", got, tc.want)
				}
				code, out, errs = runs(t.Context(), "snapshot", "export", filepath.Join(dir, "out"), "--from", file)
				if code != command.OK || !strings.Contains(out, fmt.Sprintf(": %s\n", command.Counted(n, "file"))) ||
					!sameNote(errs, note) {
					t.Errorf("files: %d %q %q", code, out, errs)
				}
			})
		}
	}
}

func sameNote(errs, note string) bool {
	if note == "" {
		return errs == ""
	}
	return strings.HasPrefix(errs, note) && strings.Count(errs, "\n") == 1
}

func exportedLines(t *testing.T, text string) string {
	t.Helper()
	var all []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var o struct {
			Metadata struct{ Namespace, Name string }
			Spec     struct{ Of string }
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o.Metadata.Namespace+"/"+o.Metadata.Name+":"+o.Spec.Of)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
