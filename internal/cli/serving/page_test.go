package serving

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

// TestPageStatus checks that the page gives a reason for each collection that is not served, and marks each collection
// that needs the operator's attention.
func TestPageStatus(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	of := func(resource string, change func(*source.Collection)) source.Collection {
		c := source.Collection{Version: "v1", Resource: resource, Representation: string(entry.Unstructured), Persistent: true,
			Complete: true, LastContact: now.Add(-time.Minute), Live: &source.Live{Source: "live"}}
		change(&c)
		return c
	}
	s := source.Status{Store: "m.db", Collections: []source.Collection{
		of("pods", func(c *source.Collection) {}),
		of("secrets", func(c *source.Collection) {}),
		of("sealed", func(c *source.Collection) { c.Sealed = true }),
		of("memory", func(c *source.Collection) { c.Persistent = false }),
		of("earlier", func(c *source.Collection) { c.Live = nil }),
		of("offline", func(c *source.Collection) { c.Live.Source, c.Live.Error = "disk", "refused" }),
		of("nodes", func(c *source.Collection) {
			c.Live.Source, c.Live.Error, c.Live.Forbidden = "disk", "nodes is forbidden", "kubectl auth can-i list nodes -A"
		}),
		of("relist", func(c *source.Collection) { c.Notes = entry.Info{MustRelist: "why"}.Notes(now, false) }),
		of("changed", func(c *source.Collection) {
			c.Notes = entry.Info{Attributes: entry.Attributes{Transform: "1"}}.Notes(now, false)
		}),
		of("metadata", func(c *source.Collection) { c.Representation = string(entry.Metadata) }),
	}}
	type seen struct {
		hidden, state string
		well          bool
	}
	for _, secrets := range []bool{false, true} {
		flag := "served with --serve-secrets only"
		if secrets {
			flag = ""
		}
		want := map[string]seen{
			"pods": {"", "live", true}, "secrets": {flag, "live", true}, "sealed": {flag, "live", true},
			"memory":  {"kept in memory only, and not served", "live, in memory only", true},
			"earlier": {"left by an earlier sync; nothing mirrors it, and it is not served", "stored", true},
			"offline": {"", "offline", false}, "nodes": {"", "forbidden", false}, "relist": {"", "live", false},
			"changed":  {"", "live", true},
			"metadata": {"", "live, metadata", true},
		}
		st := pageStatus(now, s, secrets)
		if st.Of != ofMirror || st.File != "m.db" || len(st.Collections) != len(want) {
			t.Errorf("%+v", st)
		}
		if !strings.HasPrefix(st.Forbidden, "the API server forbids 1 of 9 resources: nodes") {
			t.Errorf("forbidden: %q", st.Forbidden)
		}
		for _, c := range st.Collections {
			if got := (seen{c.Hidden, c.State, c.Well}); got != want[c.Resource] {
				t.Errorf("secrets %t, %s: %+v, want %+v", secrets, c.Resource, got, want[c.Resource])
			}
			if c.Metadata != (c.Resource == "metadata") {
				t.Errorf("%s: metadata is %t", c.Resource, c.Metadata)
			}
		}
	}
	if of := pageStatus(now, source.Status{Snapshot: &source.SnapshotInfo{}}, false).Of; of != ofSnapshot {
		t.Errorf("a snapshot is a %s", of)
	}
	if of := pageStatus(now, source.Status{}, false).Of; of != ofStore {
		t.Errorf("a store is a %s", of)
	}
}

// TestPageStates checks that the page shows each state of a running sync that needs an operator (issue 37).
func TestPageStates(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	noted := func(info entry.Info, listOnly bool) source.Collection {
		c := source.Collection{Complete: true, Persistent: true, Representation: string(entry.Unstructured),
			Live: &source.Live{Source: "live"}, Notes: info.Notes(time.Time{}, listOnly)}
		if listOnly {
			c.Live = &source.Live{Source: "disk", ListOnly: true, Error: "405"}
		}
		return c
	}
	for what, tt := range map[string]struct {
		c           source.Collection
		state, note string
	}{
		"listed, not watched": {noted(entry.Info{}, true), "listed", "the API server refuses to watch the objects"},
		"must relist":         {noted(entry.Info{MustRelist: "why"}, false), "live", "to be listed again (why)"},
		"left out": {noted(entry.Info{LeftOut: make([]entry.LeftOut, 2)}, false), "live",
			"objects that could not be stored are missing, or older than the server's: 2"},
		"behind": {source.Collection{Complete: true, Persistent: true, Representation: string(entry.Unstructured),
			Live: &source.Live{Source: "live", Uncommitted: true, Error: "no space"}}, "behind", ""},
	} {
		st := pageStatus(now, source.Status{Error: "no space", Collections: []source.Collection{tt.c}}, false)
		c := st.Collections[0]
		if c.State != tt.state || c.Well || !strings.Contains(strings.Join(c.Notes, "\n"), tt.note) ||
			(tt.note == "") != (len(c.Notes) == 0) || st.Error != "no space" {
			t.Errorf("%s: %+v", what, c)
		}
	}
	p := &Port{Memory: serve.NewMemory(0)}
	_, err := p.pageOptions(Served{Status: func(context.Context) (source.Status, error) {
		return source.Status{}, fmt.Errorf("status: %w", store.ErrOverwritten)
	}}).Status(t.Context())
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), store.ErrOverwritten.Error()) {
		t.Errorf("replaced: %v", err)
	}
}

// TestPageLine checks that the URL with the token is printed to a terminal and never to a log (issue 37).
func TestPageLine(t *testing.T) {
	for _, tt := range []struct {
		terminal bool
		flags    Flags
		shown    bool
		want     string
	}{
		{true, Flags{}, true, "page: https://127.0.0.1:1/#token=the-token"},
		{false, Flags{}, false, "page: https://127.0.0.1:1/, which nobody can open: --serve-kubeconfig FILE writes a token " +
			"that it takes"},
		{true, Flags{Kubeconfig: "k"}, true, "page: https://127.0.0.1:1/#token=the-token"},
		{false, Flags{Kubeconfig: "k"}, false, "page: https://127.0.0.1:1/, which takes the token in k"},
		{false, Flags{tokenFile: "t"}, false, "page: https://127.0.0.1:1/"},
		{false, Flags{clientCA: "c"}, false, "page: https://127.0.0.1:1/"},
	} {
		p := &Port{URL: "https://127.0.0.1:1", token: "the-token", o: Options{Flags: tt.flags}}
		if got := p.pageLine(tt.terminal); got != tt.want || strings.Contains(got, "the-token") != tt.shown {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
