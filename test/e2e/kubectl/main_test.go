// Package kubectl compares larder get with kubectl get, each as a program, on the same objects of a real API server;
// and kubectl on what larder serves with kubectl on the API server.
package kubectl

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

// patience is how long a program may take.
const patience = time.Minute

// The control plane and the programs, for all tests.
var (
	site       *served.Site
	server     *controlplane.ControlPlane
	kubectl    string
	larder     string
	kubeconfig string
	cacheDir   string
)

func TestMain(m *testing.M) {
	served.Run("kubectl", controlplane.Options{}, func(s *served.Site) (code int, err error) {
		site, server, kubectl, kubeconfig = s, s.Server, s.Kubectl, s.Kubeconfig
		cacheDir = filepath.Join(s.Dir, "cache")
		if larder, err = s.Larder(); err != nil {
			return 1, err
		}
		return m.Run(), nil
	})
}
