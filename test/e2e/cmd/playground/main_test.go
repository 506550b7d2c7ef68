package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestMakePlayground checks that make playground serves a cluster with objects, that the printed exports work in
// another shell, and that an interrupt leaves no files.
func TestMakePlayground(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	cmd := exec.Command("make", "--no-print-directory", "playground", "KUBECONFIG_FILE="+path)
	cmd.Dir = filepath.Join("..", "..", "..", "..")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C in a terminal reaches the process group
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }() // ends the process group of a failed test
	lines := bufio.NewReader(out)
	exports := exported(t, lines)
	if len(exports) != 2 {
		t.Fatalf("it exports %q", exports)
	}

	for command, want := range map[string]string{
		"larder version":                      "larder ",
		"kubectl get namespaces":              "shop",
		"kubectl get deployments -A":          "checkout",
		"kubectl get secrets -n shop":         "database",
		"kubectl get certificates -n shop":    "HOST",
		"kubectl get backups -A --no-headers": "Completed",
		// The output of make playground suggests this command, to try permissions.
		`kubectl create serviceaccount viewer
kubectl create clusterrole viewer --verb=get,list,watch --resource=pods,deployments
kubectl create clusterrolebinding viewer --clusterrole=viewer --serviceaccount=default:viewer
cd ` + t.TempDir() + `
larder sync --all --store viewer.db --token "$(kubectl create token viewer)" 2>log &
larder wait viewer.db --timeout 2m
larder status viewer.db 2>/dev/null | grep -E '^nodes .* forbidden'
larder status viewer.db | grep -E '^pods .* live'
kill $!
wait
cat log`: "note: the API server forbids ",
		"larder sync no-such-resource --store " + filepath.Join(t.TempDir(), "c.db") + " 2>&1 || true": "no-such-resource",
	} {
		bash := exec.CommandContext(t.Context(), "bash", "-euc", strings.Join(append(exports, command), "\n"))
		bash.Stderr = os.Stderr
		if printed, err := bash.Output(); err != nil || !strings.Contains(string(printed), want) {
			t.Errorf("%s: %v\n%s", command, err, printed)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}

	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, lines)
	_ = cmd.Wait() // make reports the interrupt as an error
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the kubeconfig is still there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("the server still answers")
	}
}

func exported(t *testing.T, out *bufio.Reader) (exports []string) {
	t.Helper()
	for {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("it ended before it was ready: %v", err)
		}
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "export "):
			exports = append(exports, line)
		case strings.HasPrefix(line, "Ctrl-C "):
			return exports
		}
	}
}

func TestKubeconfigIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), options{kubeconfig: path}, io.Discard); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); string(got) != "mine" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
