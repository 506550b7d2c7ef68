package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/fakeapi"
)

// TestRetiredVersion checks that a resource version that the server has replaced is no longer mirrored, in a running
// sync and after a restart. Only the full name of the resource then finds its stored objects; short names mean the new
// version (issue 38, D.10).
func TestRetiredVersion(t *testing.T) {
	before, after := custom("example.com", "v1beta1", "things", "Thing"), custom("example.com", "v1", "things", "Thing")
	server := fakeapi.New(fakeapi.Options{Resources: []fakeapi.Resource{after, before}})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	serves := func(newer bool) {
		server.SetServed(after.GroupVersionResource, newer)
		server.SetServed(before.GroupVersionResource, !newer)
	}
	for _, r := range []fakeapi.Resource{before, after} {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(r.GroupVersion().WithKind(r.Kind))
		u.SetName("of-" + r.Version)
		u.SetNamespace("default")
		if _, err := server.Create(r.GroupVersionResource, u); err != nil {
			t.Fatal(err)
		}
	}
	host, dir := server.Config().Host, t.TempDir()
	things := func(store, name string) string {
		_, out, errs := runs(t.Context(), "get", name, "-o", "name", "--from", store)
		return out + errs
	}
	replaced := func(store string) {
		t.Helper()
		if got := things(store, "things.v1beta1.example.com"); !strings.Contains(got, "/of-v1beta1\n") {
			t.Errorf("by its full name: %s", got)
		}
		for _, name := range []string{"things", "things.example.com"} {
			if got := things(store, name); !strings.Contains(got, "/of-v1\n") {
				t.Errorf("get %s: %s", name, got)
			}
		}
		_, status, _ := runs(t.Context(), "status", store)
		if strings.Count(status, "stored, retired") != 1 || !strings.Contains(status, "things.v1beta1.example.com") {
			t.Error(status)
		}
	}
	for name, resources := range map[string][]string{"named": {"things"}, "all": {"--all"}} {
		serves(false)
		store := filepath.Join(dir, name+".db")
		whileSyncing(t, store, host, resources, "live", func() {
			if got := things(store, "things"); !strings.Contains(got, "/of-v1beta1\n") {
				t.Error(got)
			}
			serves(true)
			for deadline := time.Now().Add(30 * time.Second); !strings.Contains(things(store, "things"), "/of-v1\n"); {
				if time.Now().After(deadline) {
					t.Fatal("the new version is not mirrored")
				}
				time.Sleep(100 * time.Millisecond)
			}
			replaced(store)
		})
		replaced(store)
		restarted := filepath.Join(dir, name+"2.db")
		serves(false)
		whileSyncing(t, restarted, host, resources, "live", func() {})
		serves(true)
		whileSyncing(t, restarted, host, resources, "live", func() { replaced(restarted) })
	}
}
