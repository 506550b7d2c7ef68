package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	// The import is unused. It keeps the module in go.mod, whose files include the definition of PodMonitor.
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
)

func (w *world) definePodMonitors(t *testing.T) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/prometheus-operator/prometheus-operator").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"podmonitors", "prometheusrules"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "example", "prometheus-operator-crd",
			"monitoring.coreos.com_"+name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		objects, err := parse(string(text))
		if err != nil {
			t.Fatal(err)
		}
		w.apply(t, objects...)
	}
	eventually(t, "both are known", func() string {
		all, err := w.client.Discovery().ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
		if err != nil {
			return err.Error()
		}
		if !known(all.APIResources, "podmonitors") || !known(all.APIResources, "prometheusrules") {
			return fmt.Sprintf("known are %v", all.APIResources)
		}
		return ""
	})
	w.mapper.Reset()
}

func known(all []metav1.APIResource, name string) bool {
	return slices.ContainsFunc(all, func(r metav1.APIResource) bool { return r.Name == name })
}
