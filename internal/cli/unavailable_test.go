package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/internal/cli/command"
)

// TestUnavailableAPI checks that sync --all and snapshot save work while an aggregated API is unavailable, and report
// it in one line. The sync keeps the stored objects of that API, and mirrors it again once it responds (issue 38, C.8).
func TestUnavailableAPI(t *testing.T) {
	server := startNamesakes(t)
	metrics := namesakes[2][1]
	server.SetAvailable(metrics.GroupVersion(), false)
	host, dir := server.Config().Host, t.TempDir()
	store := filepath.Join(dir, "s.db")
	stored := func() bool {
		_, out, _ := runs(t.Context(), "get", "pods.metrics.k8s.io", "-A", "-o", "name", "--from", store)
		return strings.Contains(out, nameOf(metrics))
	}
	code, _, errs := runs(t.Context(), "snapshot", "save", filepath.Join(dir, "s.larder"), "--server", host)
	if n := strings.Count(errs, "metrics.k8s.io/v1beta1"); code != command.OK || n != 1 {
		t.Errorf("snapshot save: exit code %d: %s", code, errs)
	}
	stderr := whileSyncing(t, store, host, []string{"--all"}, "live", func() {
		if code, _, errs := runs(t.Context(), "get", "pods,backups", "-A", "--from", store); code != command.OK {
			t.Errorf("get: exit code %d: %s", code, errs)
		}
		server.SetAvailable(metrics.GroupVersion(), true)
		for deadline := time.Now().Add(30 * time.Second); !stored(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it is not mirrored, though it is there")
			}
		}
	})
	if n := strings.Count(stderr, "metrics.k8s.io/v1beta1"); n != 1 ||
		!strings.Contains(stderr, "all of its resources again") {
		t.Errorf("sync says %d times that it is away:\n%s", n, stderr)
	}
	server.SetAvailable(metrics.GroupVersion(), false)
	whileSyncing(t, store, host, []string{"--all"}, "disk", func() {
		if !stored() {
			t.Error("what is stored of it is gone")
		}
		server.SetAvailable(metrics.GroupVersion(), true)
		for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			_, status, _ := runs(t.Context(), "status", store, "-o", "json")
			if !strings.Contains(status, `"source": "disk"`) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("it is not live, though it is there")
			}
		}
	})
	if !stored() {
		t.Error("what is stored of it is gone")
	}
}
