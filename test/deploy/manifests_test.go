package deploy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write deploy/manifests anew")

// manifest is a file of deploy/manifests: a release of the chart and its namespace.
type manifest struct {
	name, namespace string
	level           string // level of Pod Security that the pods need
	values          string
	about           string
}

var manifests = []manifest{
	{"node", "larder-node", "privileged", "node: {enabled: true}",
		"A mirror on each node. Its store is on the node's disk (hostPath), which needs a privileged namespace."},
	{"node-serve", "larder-node", "privileged", "node: {enabled: true, serve: true}",
		"A mirror on each node that also serves the node's agents. It needs the Secret larder-tls."},
	{"mirror", "larder", "restricted", "mirror: {enabled: true, snapshotTo: /var/lib/larder/snapshots/}",
		"A mirror on a volume that serves what it mirrors, and snapshots of that. It needs the Secret larder-tls."},
	{"snapshots", "larder", "restricted", "snapshots: {enabled: true}",
		"A snapshot of the cluster each hour, on a volume of its own."},
}

func (m manifest) file() string {
	return filepath.Join("..", "..", "deploy", "manifests", m.name+".yaml")
}

func (m manifest) text(r *release) string {
	return fmt.Sprintf("# %s\n# See deploy/README.md. Rendered from deploy/chart with the values\n#\n#\t%s\n#\n"+
		"# by go -C test/deploy test . -run '^TestManifests$' -update\n"+
		"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n  labels:\n    pod-security.kubernetes.io/enforce: %s\n%s",
		m.about, m.values, m.namespace, m.level, r.text)
}

func TestManifests(t *testing.T) {
	known := map[string]bool{}
	for _, m := range manifests {
		known[filepath.Base(m.file())] = true
		want := m.text(render(t, m.namespace, m.values))
		if *update {
			if err := os.WriteFile(m.file(), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(m.file())
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the chart renders: go -C test/deploy test . -run '^TestManifests$' -update", m.file())
		}
	}
	files, err := os.ReadDir(filepath.Dir(manifests[0].file()))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] && strings.HasSuffix(f.Name(), ".yaml") {
			t.Errorf("deploy/manifests/%s is rendered by nobody", f.Name())
		}
	}
}
