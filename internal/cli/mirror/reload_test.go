package mirror

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/internal/config"
)

const reloadHead = "apiVersion: larder.dev/v1alpha1\nkind: SyncConfig\nstore: s.db\nresources: [{name: "

// TestReloadOfWhatIsGone: a configuration that is empty or gone for two looks is refused, once; the one that counts is
// told to count again when it is back.
func TestReloadOfWhatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sync.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func() {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	first, second := reloadHead+"pods}]\n", reloadHead+"nodes}]\n"
	write(first)
	applied, err := readConfigured(path)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reports []bool
		var names []string
		r := &reloader{
			path: path, applied: applied, every: time.Second,
			apply: func(_ context.Context, c *config.Config) error {
				mu.Lock()
				defer mu.Unlock()
				names = append(names, c.Resources[0].Name)
				return nil
			},
			report: func(ok bool) {
				mu.Lock()
				defer mu.Unlock()
				reports = append(reports, ok)
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.run(ctx) }()
		defer func() { cancel(); <-done }()
		wait := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		expect := func(what string, ok bool, n int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if len(reports) != n || n > 0 && reports[n-1] != ok {
				t.Errorf("%s: %v, want %d reports, the last one %v", what, reports, n, ok)
			}
		}
		wait(time.Second / 2) // between looks
		write("")
		wait(time.Second)
		expect("empty at one look: it may be about to be written", false, 0)
		wait(5 * time.Second)
		expect("empty", false, 1)
		write(first)
		wait(5 * time.Second)
		expect("back", true, 2)
		remove()
		wait(time.Second)
		write(first)
		wait(5 * time.Second)
		expect("replaced", true, 2)
		remove()
		wait(5 * time.Second)
		expect("gone", false, 3)
		write(second)
		wait(5 * time.Second)
		expect("another", true, 4)
		mu.Lock()
		defer mu.Unlock()
		if len(names) != 2 || names[0] != "pods" || names[1] != "nodes" {
			t.Errorf("applied: %v", names)
		}
	})
}
