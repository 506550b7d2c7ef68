package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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

// childKubeconfig makes the test binary the command: its value is --kubeconfig.
const childKubeconfig = "LARDER_APISERVER_KUBECONFIG"

func TestMain(m *testing.M) {
	if path := os.Getenv(childKubeconfig); path != "" {
		if err := untilSignal(path, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestServesUntilSIGTERM: it starts, its kubeconfig works and is nobody else's, and SIGTERM leaves nothing.
func TestServesUntilSIGTERM(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childKubeconfig+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // if the test fails
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(first, "is ready at https://127.0.0.1:") {
		t.Fatalf("it says %q, %v", first, err)
	}

	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = t.Name()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) == 0 {
		t.Errorf("namespaces: %v, %v", all, err)
	}

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the kubeconfig is still there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("the server still answers")
	}
}

// TestKubeconfigIsThere: what is there is not touched.
func TestKubeconfigIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), path, io.Discard); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); string(got) != "mine" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
