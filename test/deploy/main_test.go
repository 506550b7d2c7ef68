package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

var (
	dir string
	// server starts the API server and larder builds the program, once and on first use. started is the running server.
	server  = sync.OnceValues(startServer)
	larder  = sync.OnceValues(buildLarder)
	started *controlplane.ControlPlane
)

func startServer() (cp *controlplane.ControlPlane, err error) {
	started, err = controlplane.Start(context.Background(), controlplane.Options{
		Dir: filepath.Join(dir, "server"), Args: []string{"--authorization-mode=RBAC"}, Env: []string{"GOGC=400"},
	})
	return started, err
}

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if dir, err = os.MkdirTemp("", "larder-deploy-"); err != nil {
		return 1, err
	}
	if err := os.Mkdir(filepath.Join(dir, "server"), 0o700); err != nil {
		return 1, err
	}
	code = m.Run()
	if started != nil {
		if err := started.Stop(); err != nil {
			return 1, err
		}
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "deploy: logs are in", dir)
		return code, nil
	}
	return 0, os.RemoveAll(dir)
}

// buildLarder builds the program of the image, without debug information to save link time.
func buildLarder() (string, error) {
	path := filepath.Join(dir, "larder")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./cmd/larder")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building larder: %w\n%s", err, out)
	}
	return path, nil
}

const patience = 2 * time.Minute

func eventually(t *testing.T, what string, check func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		problem := check()
		if problem == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %s", what, patience, problem)
		case <-tick.C:
		}
	}
}
