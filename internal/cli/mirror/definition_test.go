package mirror

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

// runWidgets mirrors widgets until what the file says of them is as wanted.
func runWidgets(t *testing.T, server *fakeapi.Server, path string, want entry.ResourceInfo) {
	t.Helper()
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server.ResetCounts()
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	pl := planner{storePath: path, config: server.Config()}
	plan, _, err := pl.plan(t.Context(), mustServer(t, server.Config()), nil, nil,
		[]cluster.Wanted{{Name: "widgets", Representation: entry.Unstructured}})
	if err != nil {
		t.Fatal(err)
	}
	m := newMirror(st)
	mb, err := newMember(t.Context(), st, plan[0], memberOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.members = []*member{mb}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.run(ctx) }()
	describedAs := func() entry.ResourceInfo {
		infos, err := st.Collections(t.Context())
		if err != nil || len(infos) != 1 {
			t.Fatal(infos, err)
		}
		return infos[0].Resource
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if server.Counts(clitest.Definitions).Gets > 0 && cmp.Equal(describedAs(), want) {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	got := describedAs()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestDefinition: names and columns of a custom resource are those of its definition, in the version that is mirrored.
// Without one, or without the right to read it, what was known stays.
func TestDefinition(t *testing.T) {
	server := clitest.StartWithWidgets(t)
	path := filepath.Join(t.TempDir(), "s.db")
	plain := entry.ResourceInfo{Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"}, Namespaced: true,
		RequestedAs: []string{"widgets"}}
	runWidgets(t, server, path, plain)
	made, err := server.Create(clitest.Definitions, clitest.WidgetDefinition())
	if err != nil {
		t.Fatal(err)
	}
	full := entry.ResourceInfo{
		Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"}, Namespaced: true, Categories: []string{"all"},
		Columns:     []entry.Column{{Name: "Size", Type: "string", Priority: 1, JSONPath: ".spec.size"}},
		Definition:  fmt.Sprintf("%s/%d", made.GetUID(), made.GetGeneration()),
		RequestedAs: []string{"widgets"},
	}
	runWidgets(t, server, path, full)
	server.InjectFault(fakeapi.Fault{Verb: "get", Resource: "customresourcedefinitions", Status: http.StatusForbidden,
		Reason: "Forbidden"})
	runWidgets(t, server, path, full)
}
