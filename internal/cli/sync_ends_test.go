package cli

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/store"
)

// TestSyncInterruptedBeforeStart checks that a sync that is interrupted before it starts to mirror exits with 0, like a
// running sync, and says whether it has made a store.
func TestSyncInterruptedBeforeStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, left := range []string{"no store was made at " + path, path + " holds what it held"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, problems bytes.Buffer
		code := Run(ctx, []string{"sync", "pods", "--store", path, "--server", "http://127.0.0.1:1"},
			command.IO{Out: &out, Err: &problems})
		want := "note: stopped before anything was mirrored: " + left + "\n"
		if code != command.OK || problems.String() != want {
			t.Errorf("exit code %d: %s", code, problems.String())
		}
		st, err := store.Open(path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWatchOnAFullDisk checks that larder watch reports a failed write of its output once, and that it names the last
// written change as the point to resume from.
func TestWatchOnAFullDisk(t *testing.T) {
	server := clitest.StartServer(t)
	path := filepath.Join(t.TempDir(), "s.db")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runs(ctx, "sync", "pods", "--keep-changes=1h", "--store", path, "--server", server.Config().Host)
	}()
	for n := range 3 {
		clitest.CreatePod(t, server, "a", fmt.Sprint("p", n), nil)
	}
	for kept := ""; !strings.Contains(kept, `"last": 3`); time.Sleep(10 * time.Millisecond) {
		_, kept, _ = runs(ctx, "status", path, "-o", "json")
	}
	cancel()
	<-ended
	for _, format := range []string{"table", "name", "json", "custom-columns=N:.metadata.name"} {
		var errs bytes.Buffer
		Run(t.Context(), []string{"watch", "pods", "-A", "--since", "1", "--from", path, "-o", format},
			command.IO{Out: fullDisk{}, Err: &errs})
		if got := errs.String(); strings.Count(got, "full") != 1 || strings.Contains(got, "go on with") &&
			!strings.Contains(got, "--since 1@") {
			t.Errorf("%s: %s", format, got)
		}
	}
}
