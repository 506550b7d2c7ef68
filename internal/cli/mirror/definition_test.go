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

// runWidgets mirrors the custom resource widgets until done returns true, or for half a minute. It then compares the
// stored names and columns with want.
func runWidgets(t *testing.T, server *fakeapi.Server, path string, want entry.ResourceInfo, done func(*member) bool) {
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
		if done(mb) && cmp.Equal(describedAs(), want) {
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

// TestDefinition checks that the stored names and columns of a custom resource are those of the mirrored version in its
// definition. Without a definition, or without permission to read it, the stored names and columns do not change.
func TestDefinition(t *testing.T) {
	server := clitest.StartWithWidgets(t)
	path := filepath.Join(t.TempDir(), "s.db")
	asked := func(*member) bool { return server.Counts(clitest.Definitions).Gets > 0 }
	plain := entry.ResourceInfo{Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"}, Namespaced: true,
		RequestedAs: []string{"widgets"}}
	runWidgets(t, server, path, plain, asked)
	forbidden := fakeapi.Fault{Verb: "get", Resource: "customresourcedefinitions", Status: http.StatusForbidden,
		Reason: "Forbidden"}
	server.InjectFault(forbidden)
	runWidgets(t, server, path, plain, asked)
}

// TestDefinitionIsReadOnce checks that a restart that resumes does not read the definition again, and that a restart
// that lists does. kube-apiserver ends a resource's watches when its definition changes.
func TestDefinitionIsReadOnce(t *testing.T) {
	server := clitest.StartWithWidgets(t)
	path := filepath.Join(t.TempDir(), "s.db")
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
	asked := func(*member) bool { return server.Counts(clitest.Definitions).Gets > 0 }
	runWidgets(t, server, path, full, asked)
	var synced time.Time
	runWidgets(t, server, path, full, func(mb *member) bool {
		if synced.IsZero() && mb.informer.HasSynced() {
			synced = time.Now()
		}
		return !synced.IsZero() && time.Since(synced) > 2*lookEvery
	})
	if n := server.Counts(clitest.Definitions).Gets; n > 0 {
		t.Errorf("a restart without a list read the definition %d times", n)
	}
	made.SetGeneration(made.GetGeneration() + 1)
	if made, err = server.Update(clitest.Definitions, made); err != nil {
		t.Fatal(err)
	}
	server.Compact()
	full.Definition = fmt.Sprintf("%s/%d", made.GetUID(), made.GetGeneration())
	runWidgets(t, server, path, full, asked)
}
