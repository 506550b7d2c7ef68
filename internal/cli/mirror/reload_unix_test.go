//go:build unix

package mirror

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/larder-dev/larder/internal/config"
)

// TestReloadOfAPipe: a configuration that becomes a pipe is refused, and who follows it still ends when it is told to.
func TestReloadOfAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sync.yaml")
	if err := os.WriteFile(path, []byte(reloadHead+"pods}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	applied, err := readConfigured(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reports := make(chan bool, 1)
	r := &reloader{
		path: path, applied: applied, every: time.Millisecond,
		apply:  func(context.Context, *config.Config) error { t.Error("applied"); return nil },
		report: func(ok bool) { reports <- ok },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	if <-reports {
		t.Error("it counts")
	}
	cancel()
	<-done
}
