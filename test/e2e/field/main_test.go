// Package field runs the trials of docs/field-reports.md on kube-apiserver.
package field

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
	"github.com/larder-dev/larder/test/field"
)

var site *served.Site

// TestMain starts a server with occasional GOAWAYs and few streams per connection.
func TestMain(m *testing.M) {
	o := controlplane.Options{Args: []string{"--goaway-chance=0.02", "--http2-max-streams-per-connection=20"}}
	served.Run("field", o, func(s *served.Site) (int, error) {
		site = s
		return m.Run(), nil
	})
}

type apiServer struct{}

func (apiServer) Config() *rest.Config { return site.Server.Config("field") }

func (apiServer) LoseHistory(t *testing.T) {
	t.Helper()
	if err := site.Server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReports(t *testing.T) {
	for report, try := range field.Reports() {
		t.Run(report, func(t *testing.T) { try(field.NewWorld(t, apiServer{})) })
	}
}

func TestReportsOfServers(t *testing.T) {
	for report, try := range field.ReportsOfServers() {
		t.Run(report, func(t *testing.T) { try(field.NewWorld(t, apiServer{})) })
	}
}
