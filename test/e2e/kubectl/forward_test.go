package kubectl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

// TestForward: with a token of the API server, kubectl reads what is mirrored through sync --serve --forward, and does
// all else there, too: it finds in discovery what is not mirrored. With larder's own token it finds the mirror only.
func TestForward(t *testing.T) {
	m, err := site.Mirror(t.Context(), "forward", []string{"configmaps"}, "--forward")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := m.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	config, err := m.Config("")
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.BearerToken = site.Server.Config(controlplane.Writer).BearerToken
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := served.WriteKubeconfig(path, config); err != nil {
		t.Fatal(err)
	}
	// A kubectl that has seen less of discovery keeps it for hours.
	fresh := func(args string) printed { return newTarget(t, path).run(t, args) }
	eventually(t, "the mirror has learned what the API server has", func() string {
		if got := fresh("get po -n default"); got.Code != 0 {
			return strings.Join(got.Err, "\n")
		}
		return ""
	})
	manifests := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(manifests, []byte(nodeWithPod), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ args, want string }{
		{"create namespace forwarded", "namespace/forwarded created"},
		{"create serviceaccount robot -n forwarded", "serviceaccount/robot created"},
		{"get sa robot -n forwarded -o name", "serviceaccount/robot"},
		{"create configmap settings -n forwarded", "configmap/settings created"},
		{"label configmap settings -n forwarded a=b", "configmap/settings labeled"},
		{"create deployment web --image=web -n forwarded", "deployment.apps/web created"},
		{"scale deployment web --replicas=3 -n forwarded", "deployment.apps/web scaled"},
		{"create -f " + manifests, "pod/guest created"},
		{"drain forwarded --force --grace-period=0", "pod/guest evicted"},
		{"delete node forwarded", `node "forwarded" deleted`},
		{"delete sa robot -n forwarded", `serviceaccount "robot" deleted from forwarded namespace`},
		{"delete namespace forwarded --wait=false", `namespace "forwarded" deleted`},
	} {
		if got := fresh(step.args); got.Code != 0 || !slices.Contains(got.Out, step.want) {
			t.Errorf("kubectl %s: %q, %q, want %q", step.args, got.Out, got.Err, step.want)
		}
	}
	own := newTarget(t, m.Kubeconfig)
	if got := own.run(t, "get serviceaccounts"); got.Code == 0 {
		t.Errorf("larder's own token reads what is not mirrored: %q", got.Out)
	}
	names := own.run(t, "api-resources --verbs=list -o name").Out
	if got := strings.TrimSpace(strings.Join(names, " ")); got != "configmaps" {
		t.Errorf("larder's own token discovers %q", got)
	}
}

const nodeWithPod = `
apiVersion: v1
kind: Node
metadata: {name: forwarded}
---
apiVersion: v1
kind: Pod
metadata: {name: guest, namespace: forwarded}
spec:
  nodeName: forwarded
  serviceAccountName: robot
  automountServiceAccountToken: false
  containers: [{name: guest, image: guest}]
`
