package mirror

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
)

// TestReplaceLeavesTheRestAlone: what is mirrored before and after a change has no request because of it; what is gone
// ends and what is new begins, with one list each; what comes back resumes.
func TestReplaceLeavesTheRestAlone(t *testing.T) {
	server := clitest.StartServer(t)
	clitest.CreatePod(t, server, "a", "x", nil)
	path := filepath.Join(t.TempDir(), "s.db")
	mirrorUntil(t, server, path, func(m *mirror, st *store.Store) {
		server.ResetCounts()
		pl := planner{storePath: path, config: server.Config(),
			running: func(id entry.Identity) bool { return m.runs(id, memberOptions{}) }}
		change := func(names ...string) change {
			t.Helper()
			infos, err := st.Collections(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var all []cluster.Wanted
			for _, name := range names {
				all = append(all, cluster.Wanted{Name: name, Representation: entry.Unstructured})
			}
			plan, err := pl.plan(t.Context(), infos, all)
			if err != nil {
				t.Fatal(err)
			}
			c, err := m.replace(t.Context(), plan, memberOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, mb := range m.now() {
				if !cache.WaitForCacheSync(t.Context().Done(), mb.informer.HasSynced) {
					t.Fatal("it has not synced")
				}
			}
			return c
		}
		counts := func(r input.Resource) fakeapi.Counts { return server.Counts(r.GroupVersionResource) }

		if c := change("deployments", "pods"); c.kept != 1 || len(c.begun) != 1 || len(c.stopped) != 0 {
			t.Errorf("%+v", c)
		}
		if c := counts(clitest.Pods); c != (fakeapi.Counts{}) {
			t.Errorf("pods: %+v", c)
		}
		if c := counts(clitest.Deployments); c.Lists != 1 || c.Watches != 1 {
			t.Errorf("deployments: %+v", c)
		}
		server.ResetCounts()
		ended := watchOf(m, source.WatchQuery{Query: source.Query{Collection: m.now()[0].identity.ID()}, List: true})
		if c := change("pods"); c.kept != 1 || len(c.begun) != 0 || len(c.stopped) != 1 {
			t.Errorf("%+v", c)
		}
		if err := <-ended; !errors.Is(err, source.ErrReplaced) {
			t.Errorf("a watch of what is not mirrored any more: %v", err)
		}
		if c := change("pods", "deployments"); c.kept != 1 || len(c.begun) != 1 || len(c.stopped) != 0 {
			t.Errorf("%+v", c)
		}
		if c := counts(clitest.Deployments); c.Lists != 0 || c.Watches == 0 {
			t.Errorf("deployments that came back: %+v", c)
		}
		if c := counts(clitest.Pods); c.Lists+c.Probes+c.Watches != 0 {
			t.Errorf("pods: %+v", c)
		}
	})
}

// TestReplaceBeforeAndAfterTheRun: a change that comes too early is started by run, one that comes too late is not
// begun.
func TestReplaceBeforeAndAfterTheRun(t *testing.T) {
	server := clitest.StartServer(t)
	path := filepath.Join(t.TempDir(), "s.db")
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	m := newMirror(st)
	replace := func(name string) {
		t.Helper()
		plan, err := planner{storePath: path, config: server.Config()}.plan(t.Context(), nil,
			[]cluster.Wanted{{Name: name, Representation: entry.Unstructured}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.replace(t.Context(), plan, memberOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	replace("pods")
	replace("deployments")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.run(ctx) }()
	if !cache.WaitForCacheSync(t.Context().Done(), m.now()[0].informer.HasSynced) {
		t.Error("it has not synced")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	replace("pods")
	if m.now()[0].informer.HasSynced() {
		t.Error("it runs after the end")
	}
}

// TestNotify: systemd is told by a datagram; without its socket nobody is.
func TestNotify(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("there is no systemd")
		return
	}
	t.Setenv("NOTIFY_SOCKET", "")
	newNotifier().ready()
	socket := filepath.Join(t.TempDir(), "n")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	n := newNotifier()
	n.ready()
	n.reloading()
	n.stopping()
	for _, want := range []string{"READY=1", "RELOADING=1", "STOPPING=1"} {
		buf := make([]byte, 64)
		if k, err := c.Read(buf); err != nil || string(buf[:k]) != want {
			t.Errorf("got %q, %v, want %s", buf[:k], err, want)
		}
	}
}
