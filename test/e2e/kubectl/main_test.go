// Package kubectl compares larder get with kubectl get, each as a program, on the same objects of a real API server.
package kubectl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// patience is how long a program may take.
const patience = time.Minute

// The control plane and the programs, for all tests.
var (
	server     *controlplane.ControlPlane
	kubectl    string
	larder     string
	kubeconfig string
	cacheDir   string
)

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/kubectl:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "larder-e2e-kubectl-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx := context.Background()
	binaries, err := controlplane.Binaries(ctx)
	if err != nil {
		return 1, err
	}
	kubectl, larder = filepath.Join(binaries, "kubectl"), filepath.Join(dir, "larder")
	kubeconfig, cacheDir = filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "cache")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", larder, "./cmd/larder")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building larder: %w\n%s", err, out)
	}
	if server, err = controlplane.Start(ctx, controlplane.Options{Dir: dir, Env: []string{"GOGC=400"}}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if err := writeKubeconfig(server.Config("kubectl")); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func writeKubeconfig(config *rest.Config) error {
	c := clientcmdapi.NewConfig()
	c.Clusters["e2e"] = &clientcmdapi.Cluster{
		Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
	}
	c.AuthInfos["e2e"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	c.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "e2e"}
	c.CurrentContext = "e2e"
	return clientcmd.WriteToFile(*c, kubeconfig)
}
