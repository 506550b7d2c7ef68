package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/command"
)

// TestServeStartsOnAFullDisk checks that sync --serve starts on a full disk with the kubeconfig and the certificates of
// an earlier run, also at another address (issue 37). The test mounts a file system, so it needs root.
func TestServeStartsOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("larder-test", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Logf("no file system of our own: %v", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	server := clitest.StartServer(t)
	clitest.CreatePod(t, server, "a", "x", nil)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	first, second := freeAddress(t), freeAddress(t)
	serves := func(address string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan string, 1)
		go func() {
			var stderr strings.Builder
			Run(ctx, []string{"sync", "pods", "--server", server.Config().Host, "--store", filepath.Join(dir, "s.db"),
				"--serve", address, "--serve-kubeconfig", kubeconfig}, command.IO{Out: io.Discard, Err: &stderr})
			ended <- stderr.String()
		}()
		for ; ; time.Sleep(10 * time.Millisecond) {
			if code := podsAt(t, kubeconfig, address); code == http.StatusOK {
				break
			}
			select {
			case problems := <-ended:
				t.Fatalf("the sync ended: %s", problems)
			default:
			}
		}
		cancel()
		<-ended
	}
	serves(first)
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	if err := ballast.Close(); err != nil {
		t.Fatal(err)
	}
	serves(first)
	serves(second)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func podsAt(t *testing.T, kubeconfig, address string) int {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil || config.Contexts[config.CurrentContext] == nil {
		return 0
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cluster.CertificateAuthorityData)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Token)
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}
