// Package discovery compares the documents of package internal/discovery with the API server's, directly and through
// kubectl.
package discovery

import (
	"testing"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

var (
	site    *served.Site
	server  *controlplane.ControlPlane
	kubectl string
)

func TestMain(m *testing.M) {
	served.Run("discovery", controlplane.Options{}, func(s *served.Site) (int, error) {
		site, server, kubectl = s, s.Server, s.Kubectl
		return m.Run(), nil
	})
}
