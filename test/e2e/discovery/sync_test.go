package discovery

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

var synced = []string{"pods", "deployments", "cronjobs", "gadgets.v1.example.com"}

// TestSync checks that kubectl explain works offline from the data of larder sync: from the store, from a snapshot of
// the store, from a restored store, and from a snapshot of the server.
func TestSync(t *testing.T) {
	all := mirrored(t)
	dir := t.TempDir()
	larder, err := site.Larder()
	if err != nil {
		t.Fatal(err)
	}
	theirs := kubeconfig(t, server.Config("kubectl"))
	db, file, live, restored, none := filepath.Join(dir, "s.db"), filepath.Join(dir, "s.larder"),
		filepath.Join(dir, "live.larder"), filepath.Join(dir, "restored.db"), filepath.Join(dir, "none.db")
	syncTo(t, larder, theirs, db)
	syncTo(t, larder, theirs, none, "--schemas=false")
	for _, args := range [][]string{
		{"snapshot", "save", file, "--from", db}, {"snapshot", "restore", file, "--store", restored},
		append(append([]string{"snapshot", "save", live}, synced...), "--kubeconfig", theirs),
	} {
		if out, err := exec.CommandContext(t.Context(), larder, args...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}

	explain := []string{"explain pod.spec.tolerations", "explain gadgets.spec.size", "explain cj --recursive"}
	want := map[string][]string{}
	for _, args := range explain {
		want[args] = run(t, theirs, args)
	}
	part := slices.DeleteFunc(all, func(r discovery.Resource) bool {
		return !slices.Contains([]string{"pods", "deployments", "cronjobs", "gadgets"}, r.Resource) ||
			r.Group == "example.com" && r.Version != "v1"
	})
	for name, path := range map[string]string{"the store": db, "a snapshot": file, "a restored store": restored,
		"a snapshot of the server": live} {
		t.Run(name, func(t *testing.T) {
			h := offline(t, path)
			for _, path := range paths(part) {
				want, got := upstream(t, path, asJSON), ours(t, h, path, asJSON)
				if want.code != got.code {
					t.Errorf("%s: %d", path, got.code)
				}
			}
			s := httptest.NewServer(h)
			defer s.Close()
			mine := kubeconfig(t, &rest.Config{Host: s.URL})
			for args, want := range want {
				if d := cmp.Diff(want, run(t, mine, args)); d != "" {
					t.Errorf("kubectl %s (- server, + ours):\n%s", args, d)
				}
			}
			if got := ours(t, h, "/version", asJSON); string(got.body) != string(upstream(t, "/version", asJSON).body) {
				t.Errorf("/version: %s", got.body)
			}
			if got, want := groups(t, ours(t, h, "/apis", asJSON)), []string{"apps", "batch", "example.com"}; !slices.Equal(got,
				want) {
				t.Errorf("groups %q, want the server's order %q", got, want)
			}
		})
	}
	if got := ours(t, offline(t, none), "/openapi/v3", asJSON); string(got.body) != `{"paths":{}}` {
		t.Errorf("with --schemas=false: %s", got.body)
	}
}

func syncTo(t *testing.T, larder, kubeconfig, path string, flags ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, larder, slices.Concat([]string{"sync"}, synced,
		[]string{"--store", path, "--kubeconfig", kubeconfig, "-v", "2"}, flags)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !knows(ctx, t, larder, path, len(flags) == 0) {
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
			continue
		}
		break
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || ctx.Err() != nil {
		t.Fatalf("larder sync: %v\n%s", err, log.String())
	}
}

// knows reports whether a store, read while larder sync runs, has all discovery data; with schemas, also all OpenAPI
// schemas.
func knows(ctx context.Context, t *testing.T, larder, path string, schemas bool) bool {
	t.Helper()
	to := filepath.Join(t.TempDir(), "probe.larder")
	if exec.CommandContext(ctx, larder, "snapshot", "save", to, "--from", path).Run() != nil {
		return false
	}
	f, err := snapshot.Open(to, snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	known, err := facts.Read(ctx, f)
	if err != nil {
		t.Fatal(err)
	}
	return known.Version != nil && known.Discovery != nil && known.Keys != nil && known.Keys.Issuer != "" &&
		known.Keys.Cluster != "" && known.Keys.Cluster == f.Manifest().ClusterID &&
		(!schemas || len(known.Schemas) == 4)
}

func offline(t *testing.T, path string) *discovery.Handler {
	t.Helper()
	var src snapshot.Source
	var documents facts.Documents
	if strings.HasSuffix(path, ".larder") {
		f, err := snapshot.Open(path, snapshot.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		src, documents = f, f
	} else {
		st, err := store.Open(path, store.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		src, documents = snapshot.StoreSource(st), st
	}
	collections, err := src.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []discovery.Resource
	for _, c := range collections {
		all = append(all, discovery.Resource{GroupVersionResource: c.Identity.GroupVersionResource, ResourceInfo: c.Resource,
			Verbs: reads})
	}
	return handler(t, all, documents)
}

func groups(t *testing.T, a answer) (names []string) {
	t.Helper()
	document := read(t, a, "/apis", asJSON, false).(map[string]any)
	for _, g := range list(document, "groups") {
		names = append(names, g["name"].(string))
	}
	return names
}
