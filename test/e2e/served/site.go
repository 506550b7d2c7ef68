package served

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// Site is an API server with the tested programs.
type Site struct {
	Server  *controlplane.ControlPlane
	Dir     string
	Kubectl string
	// Kubeconfig is the path of a kubeconfig for the API server. It sets no user agent, so the audit log shows kubectl's
	// own.
	Kubeconfig string

	larder func() (string, error)
}

// Run starts a site, runs tests, and exits with their exit code. TestMain calls Run.
func Run(name string, o controlplane.Options, tests func(*Site) (int, error)) {
	code, err := run(name, o, tests)
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e/%s: %v\n", name, err)
		code = 1
	}
	os.Exit(code)
}

func run(name string, o controlplane.Options, tests func(*Site) (int, error)) (code int, err error) {
	s := &Site{}
	if s.Dir, err = os.MkdirTemp("", "larder-e2e-"+name+"-"); err != nil {
		return 1, err
	}
	defer func() {
		if code != 0 || err != nil {
			fmt.Fprintf(os.Stderr, "e2e/%s: logs are in %s\n", name, s.Dir)
			return
		}
		err = os.RemoveAll(s.Dir)
	}()
	ctx := context.Background()
	binaries, err := controlplane.Binaries(ctx)
	if err != nil {
		return 1, err
	}
	s.Kubectl, s.Kubeconfig = filepath.Join(binaries, "kubectl"), filepath.Join(s.Dir, "kubeconfig")
	s.larder = sync.OnceValues(func() (string, error) { return buildLarder(s.Dir) })
	o.Dir, o.Env = s.Dir, append(o.Env, "GOGC=400")
	if s.Server, err = controlplane.Start(ctx, o); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, s.Server.Stop()) }()
	if err := WriteKubeconfig(s.Kubeconfig, s.Server.Config("")); err != nil {
		return 1, err
	}
	return tests(s)
}

// Larder returns the path of the command larder. The command is built once, because linking takes many seconds, and
// without debug information.
func (s *Site) Larder() (string, error) { return s.larder() }

func buildLarder(dir string) (string, error) {
	module, err := above("cmd/larder")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "larder")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./cmd/larder")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building larder: %w\n%s", err, out)
	}
	return path, nil
}

// above returns the nearest directory at or above the current one that contains path.
func above(path string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("%s not found: run inside the repository", path)
		}
		dir = parent
	}
}

// WriteKubeconfig writes a kubeconfig with a configuration's address, authority and token.
func WriteKubeconfig(path string, config *rest.Config) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "e2e",
		Clusters: map[string]*clientcmdapi.Cluster{"e2e": {
			Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"e2e": {Token: config.BearerToken}},
		Contexts:  map[string]*clientcmdapi.Context{"e2e": {Cluster: "e2e", AuthInfo: "e2e"}},
	}, path)
}
