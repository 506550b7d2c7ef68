// Package discovery compares what package internal/discovery says of an API server's resources with what the server
// says of them, and asks both with kubectl.
package discovery

import (
	"testing"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

var (
	site   *served.Site
	server *controlplane.ControlPlane
	// kubectl is the path of the program.
	kubectl string
)

func TestMain(m *testing.M) {
	served.Run("discovery", controlplane.Options{}, func(s *served.Site) (int, error) {
		site, server, kubectl = s, s.Server, s.Kubectl
		return m.Run(), nil
	})
}
