package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

// serveWidgets starts a server that has widgets in these versions, and one of them.
func serveWidgets(t *testing.T, versions ...string) *fakeapi.Server {
	t.Helper()
	var o fakeapi.Options
	for _, version := range versions {
		gvr := widgets.GroupVersionResource
		gvr.Version = version
		o.Resources = append(o.Resources, fakeapi.Resource{GroupVersionResource: gvr, Kind: "Widget", Singular: "widget",
			Namespaced: true})
	}
	server := fakeapi.New(o)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(o.Resources[0].GroupVersion().WithKind("Widget"))
	u.SetNamespace("a")
	u.SetName("x")
	if _, err := server.Create(o.Resources[0].GroupVersionResource, u); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// TestVersionThatIsGone: a sync of a version that the server has dropped says which one it has. A server that has lost
// the resource altogether is only not found.
func TestVersionThatIsGone(t *testing.T) {
	old := widgets
	old.Version = "v1alpha1"
	id := entry.Identity{GroupVersionResource: old.GroupVersionResource, Representation: entry.Unstructured}
	path := filepath.Join(t.TempDir(), "s.db")
	gone := "could not find the requested resource"
	moved := gone + "; the server does not have version v1alpha1 any more: name widgets.v2.example.com"
	for _, tc := range []struct {
		server *fakeapi.Server
		want   string
	}{
		{serveWidgets(t, "v1alpha1", "v2"), ""}, {serveWidgets(t, "v2", "v1"), moved}, {startServer(t), gone},
	} {
		st, err := store.Open(path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := planned{resource: old, identity: id, conn: mustConnect(t, tc.server.Config())}
		mb, err := newMember(t.Context(), st, p, memberOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m := newMirror(st)
		m.members = []*member{mb}
		runUntil(t, m, func() bool {
			live := mb.collection().Live
			return tc.want == "" && live.Synced && live.Source == "live" || tc.want != "" &&
				strings.HasSuffix(live.Error, tc.want)
		})
		var log bytes.Buffer
		(&plainLog{say: sayText(&log)}).update(time.Now(), m.mirrored())
		if tc.want != "" && !strings.HasSuffix(log.String(), ": the server "+tc.want+"\n") {
			t.Errorf("it is logged that %q", log.String())
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

// runUntil runs a mirror until done.
func runUntil(t *testing.T, m *mirror, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.run(ctx) }()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("it has not come so far: %+v", m.mirrored()[0].Live)
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
