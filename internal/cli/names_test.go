package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/fakeapi"
)

// namesakes are pairs of resources with the same name in different API groups. kubectl chooses the first of each pair.
var namesakes = [][2]fakeapi.Resource{
	{custom("", "v1", "services", "Service"), custom("serving.knative.dev", "v1", "services", "Service")},
	{custom("", "v1", "nodes", "Node"), custom("longhorn.io", "v1beta2", "nodes", "Node")},
	{custom("", "v1", "pods", "Pod"), custom("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")},
	{custom("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
		custom("crd.projectcalico.org", "v1", "networkpolicies", "NetworkPolicy")},
	{custom("velero.io", "v1", "backups", "Backup"), custom("k8s.cnpg.io", "v1", "backups", "Backup")},
}

func custom(group, version, plural, kind string) fakeapi.Resource {
	return fakeapi.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural},
		Kind:                 kind, Singular: strings.ToLower(kind), Namespaced: true,
	}
}

func startNamesakes(t *testing.T) *fakeapi.Server {
	t.Helper()
	var all []fakeapi.Resource
	for place := range 2 {
		for _, pair := range namesakes {
			if r := pair[place]; r.Resource != "nodes" && r.Resource != "pods" || r.Group != "" {
				// Nodes and pods are built into the fake server.
				all = append(all, r)
			}
		}
	}
	server := fakeapi.New(fakeapi.Options{Resources: all})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	for _, pair := range namesakes {
		for _, r := range pair {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(r.GroupVersion().WithKind(r.Kind))
			u.SetName(objectOf(r))
			if r.Resource != "nodes" || r.Group != "" {
				u.SetNamespace("default")
			}
			if _, err := server.Create(r.GroupVersionResource, u); err != nil {
				t.Fatal(err)
			}
		}
	}
	return server
}

func nameOf(r fakeapi.Resource) string {
	kind := schema.GroupKind{Group: r.Group, Kind: strings.ToLower(r.Kind)}
	return kind.String() + "/" + objectOf(r)
}

func objectOf(r fakeapi.Resource) string {
	if r.Group == "" {
		return "core"
	}
	return r.Group
}

// whileSyncing runs larder sync for the given resources. It calls fn once their status shows the given source, live or
// disk, and returns the output of the sync after fn.
func whileSyncing(t *testing.T, store, host string, resources []string, source string, fn func()) (stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	type end struct {
		code int
		errs string
	}
	ended := make(chan end, 1)
	go func() {
		code, _, errs := runs(ctx, append([]string{"sync", "--store", store, "--server", host}, resources...)...)
		ended <- end{code, errs}
	}()
	defer func() {
		cancel()
		e := <-ended
		if stderr = e.errs; e.code != command.OK {
			t.Errorf("sync %v: exit code %d: %s", resources, e.code, e.errs)
		}
	}()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && len(ended) == 0; {
		if _, out, _ := runs(t.Context(), "status", store, "-o", "json"); strings.Contains(out, `"source": "`+source+`"`) &&
			!strings.Contains(out, `"source": "none"`) && (source == "disk" || !strings.Contains(out, `"source": "disk"`)) {
			fn()
			return stderr
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("sync %v does not come to be served from %s", resources, source)
	return stderr
}

// TestNamesakes checks that a name that several resources share means the resource that kubectl would choose: in sync,
// get, watch, log, diff, export and --exclude, with and without the API server, and for any earlier content of the
// store (issue 38, F.24).
func TestNamesakes(t *testing.T) {
	server := startNamesakes(t)
	host, dir := server.Config().Host, t.TempDir()
	store := filepath.Join(dir, "s.db")
	var plain, full []string
	for _, pair := range namesakes {
		plain, full = append(plain, pair[0].Resource), append(full, pair[1].GroupResource().String())
	}
	check := func(t *testing.T, from string, has int) {
		t.Helper()
		for i, pair := range namesakes {
			for place, name := range []string{plain[i], full[i]} {
				code, out, errs := runs(t.Context(), "get", name, "-A", "-o", "name", "--from", from)
				want := nameOf(pair[place])
				if place >= has && code == command.OK && !strings.Contains(errs, "no resource") ||
					place < has && !strings.Contains(out, want) || strings.Count(out, "\n") > 1 {
					t.Errorf("get %s: exit code %d: %s%s, want %s", name, code, out, errs, want)
				}
			}
		}
	}
	whileSyncing(t, store, host, full, "live", func() {
		for _, name := range plain {
			if code, out, errs := runs(t.Context(), "get", name, "-A", "--from", store); code == command.OK ||
				!strings.Contains(errs, "another resource") {
				t.Errorf("get %s of a store that has its namesake: exit code %d: %s%s", name, code, out, errs)
			}
		}
	})
	kept := append(slices.Clone(plain), "--keep-unnamed")
	whileSyncing(t, store, host, kept, "live", func() { check(t, store, 2) })
	check(t, store, 2)
	both := append(append([]string{"configmaps"}, full...), plain...)
	whileSyncing(t, store, host, both, "live", func() {})
	server.Stop()
	whileSyncing(t, store, host, append(both, "--keep-changes=1h"), "disk", func() { check(t, store, 2) })
	for i, pair := range namesakes {
		_, out, errs := runs(t.Context(), "snapshot", "export", "-", plain[i], "--from", store)
		if kind := fmt.Sprintf(`"apiVersion":%q`, pair[0].GroupVersion()); strings.Count(out, "\n") != 1 ||
			!strings.Contains(strings.ReplaceAll(out, " ", ""), kind) {
			t.Errorf("export %s: %s%s", plain[i], out, errs)
		}
	}
	monday := filepath.Join(dir, "monday.larder")
	if code, _, errs := runs(t.Context(), "snapshot", "save", monday, "--from", store); code != command.OK {
		t.Fatal(errs)
	}
	check(t, monday, 2)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	for _, pair := range namesakes {
		for _, r := range pair {
			if err := server.Delete(r.GroupVersionResource, namespaceOf(r), objectOf(r)); err != nil {
				t.Fatal(err)
			}
		}
	}
	whileSyncing(t, store, server.Config().Host, append(both, "--keep-changes=1h"), "live", func() {
		for i, pair := range namesakes {
			for _, args := range [][]string{
				{"log", store, plain[i], "-o", "name"}, {"diff", monday, store, plain[i], "-o", "name"},
			} {
				_, out, errs := runs(t.Context(), args...)
				if !strings.Contains(out, " "+pair[0].GroupResource().String()+" ") || strings.Count(out, "\n") != 1 {
					t.Errorf("%v: %s%s", args, out, errs)
				}
			}
		}
	})
	all := filepath.Join(dir, "all.db")
	excluding := []string{"--all", "--exclude", strings.Join(plain, ",")}
	for _, present := range []bool{true, false} {
		if !present {
			server.Stop()
		}
		state := map[bool]string{true: "live", false: "disk"}[present]
		whileSyncing(t, all, server.Config().Host, excluding, state, func() {
			_, out, _ := runs(t.Context(), "status", all)
			for i, pair := range namesakes {
				if !strings.Contains(out, full[i]) || strings.Contains(out, "\n"+pair[0].GroupResource().String()+" ") {
					t.Errorf("sync %v with the server (%t): %s", excluding, present, out)
				}
			}
		})
	}
}

func namespaceOf(r fakeapi.Resource) string {
	if r.Resource == "nodes" && r.Group == "" {
		return ""
	}
	return "default"
}
