// Package kubectl compares the programs larder get and kubectl get on the objects of a kube-apiserver. It also compares
// kubectl's output on larder's API with that on the API server.
package kubectl

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

const patience = time.Minute

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
