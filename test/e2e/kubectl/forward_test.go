package kubectl

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

// TestForward checks larder sync --serve --forward. With a token of the API server, kubectl reads mirrored resources
// from the mirror, and finds and uses all other resources through the mirror. With larder's own token kubectl sees
// mirrored resources only.
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
	// Each call uses a new cache directory, because kubectl would cache incomplete discovery data for hours.
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
	readsOwnWrites(t, config)
	own := newTarget(t, m.Kubeconfig)
	if got := own.run(t, "get serviceaccounts"); got.Code == 0 {
		t.Errorf("larder's own token reads what is not mirrored: %q", got.Out)
	}
	names := own.run(t, "api-resources --verbs=list -o name").Out
	if got := strings.TrimSpace(strings.Join(names, " ")); got != "configmaps" {
		t.Errorf("larder's own token discovers %q", got)
	}
}

// readsOwnWrites checks that reads through the mirror are never older than preceding writes (issue 38, F.29).
func readsOwnWrites(t *testing.T, config *rest.Config) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	maps := client.CoreV1().ConfigMaps("default")
	old := map[string]int{}
	for i := range 40 {
		name := fmt.Sprintf("own-%d", i)
		made, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := maps.Get(t.Context(), name, metav1.GetOptions{}); err != nil || got.UID != made.UID {
			old["POST"]++
		}
		changed, err := maps.Patch(t.Context(), name, types.MergePatchType, []byte(`{"data":{"a":"b"}}`),
			metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := maps.Get(t.Context(), name, metav1.GetOptions{}); err != nil ||
			got.ResourceVersion != changed.ResourceVersion {
			old["PATCH"]++
		}
		if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		all, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil || slices.ContainsFunc(all.Items, func(c corev1.ConfigMap) bool { return c.Name == name }) {
			old["DELETE"]++
		}
	}
	if len(old) > 0 {
		t.Errorf("of 40 reads after each method, so many were older than the write: %v", old)
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
