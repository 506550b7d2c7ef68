package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Binaries returns the directory of kube-apiserver, kubectl and etcd. The first call on a machine builds them, which
// takes minutes, and reports its progress on standard error.
func Binaries(ctx context.Context) (string, error) {
	dir, err := clusterModule()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "run", "./cmd/build")
	cmd.Dir = dir
	// The environment's Go flags and workspace must not apply to the module of the servers, test/cluster.
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building kube-apiserver, kubectl and etcd in %s: %w", dir, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func clusterModule() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		module := filepath.Join(dir, "test", "cluster")
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return module, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("test/cluster not found: run inside the repository")
		}
		dir = parent
	}
}
