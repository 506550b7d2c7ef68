package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	// The package is of no use here: with it go.mod has the module, and that has the definition of a PodMonitor.
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
)

// definePodMonitors has the server know PodMonitors, as the Prometheus operator defines them.
func (w *world) definePodMonitors(t *testing.T) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/prometheus-operator/prometheus-operator").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "example", "prometheus-operator-crd",
		"monitoring.coreos.com_podmonitors.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	w.apply(t, objects...)
	eventually(t, "PodMonitors are known", func() string {
		if _, err := w.client.Discovery().ServerResourcesForGroupVersion("monitoring.coreos.com/v1"); err != nil {
			return err.Error()
		}
		return ""
	})
	w.mapper.Reset()
}
