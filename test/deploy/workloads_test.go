package deploy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const mirrorValues = `
resources:
- {name: pods}
- {name: nodes}
- {name: services}
- {name: deployments.apps}
- {name: podmonitors.monitoring.coreos.com}
mirror: {enabled: true, snapshotTo: /var/lib/larder/snapshots/prod/, args: [--snapshot-every=2s]}
repository: {signKeySecret: sign}
podMonitor: {enabled: true}`

const nodeValues = `
resources: [{name: pods}, {name: nodes}, {name: services}]
node:
  enabled: true
  serve: true
  seed: {url: "https://larder-mirror.run.svc/snapshot/", caSecret: larder-tls, key: KEY}
podMonitor: {enabled: true}`

// TestMirrorAndNodes checks the pods of a mirror and of a node with exactly the chart's rights. The mirror makes
// snapshots, and the node starts from a snapshot. Both must serve authorized readers and Prometheus.
func TestMirrorAndNodes(t *testing.T) {
	w := newWorld(t)
	w.namespace(t, "run", "restricted")
	w.namespace(t, "run-node", "privileged")
	w.certificate(t, "run", "run-node")
	w.definePodMonitors(t)
	public := w.signingKey(t, "run")
	w.workload(t)
	stranger := w.stranger(t, "run")

	mark := w.mark(t)
	release := render(t, "run", mirrorValues)
	w.apply(t, release.objects...)
	kept := t.TempDir()
	mirror := w.sandbox(t, release.pods(t)["mirror"], kept, nil).run(t)
	mirror.ready(t, 5)
	mirror.checkMetrics(t, release, stranger)
	latest := filepath.Join(kept, "store", "snapshots", "prod", "latest")
	eventually(t, "a snapshot", func() string {
		if _, err := os.Stat(latest); err != nil {
			return err.Error() + "\n" + mirror.text(t)
		}
		return ""
	})

	nodes := render(t, "run-node", strings.Replace(nodeValues, "KEY", public, 1))
	w.apply(t, nodes.objects...)
	services := map[string]string{"larder-mirror.run.svc": mirror.ports["serve"]}
	disk := t.TempDir()
	node := w.sandbox(t, nodes.pods(t)["node"], disk, services).run(t)
	node.ready(t, 3)
	node.checkMetrics(t, nodes, stranger)
	eventually(t, "three resources begin with the snapshot", func() string {
		if text := node.text(t); strings.Count(text, "begun with https://") != 3 {
			return text
		}
		return ""
	})
	w.checkAgent(t, node)
	node.stop(t)
	w.checkRights(t, nodes, "larder-node", mark)

	// A second pod on the node resumes from the store of the first pod.
	again := w.sandbox(t, nodes.pods(t)["node"], disk, services).run(t)
	again.ready(t, 3)
	again.stop(t)
	if text := again.text(t); strings.Contains(text, "begun with") || strings.Contains(text, "first list") {
		t.Errorf("a new pod has begun anew:\n%s", text)
	}
	mirror.stop(t)
	w.checkRights(t, release, "larder-mirror", mark)
	w.remove(t, append(release.objects, nodes.objects...)...)
}

func (w *world) mark(t *testing.T) int64 {
	t.Helper()
	mark, err := w.Mark()
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

func (w *world) stranger(t *testing.T, namespace string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}}
	if _, err := w.client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return w.token(t, namespace, "stranger")
}

// checkAgent checks that an agent can read from the larder on its node, with its own account's token. The agent must
// see exactly the resources that the API server permits.
func (w *world) checkAgent(t *testing.T, node *running) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "agent"}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	_, err := w.client.CoreV1().ServiceAccounts("run").Create(t.Context(), account, metav1.CreateOptions{})
	if err == nil {
		_, err = w.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta,
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}},
			metav1.CreateOptions{})
	}
	if err == nil {
		_, err = w.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "agent"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "agent", Namespace: "run"}}}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://" + node.ports["serve"],
		BearerToken:     w.token(t, "run", "agent"),
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(node.secret(t, "larder-tls")["ca.crt"])}})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Name != "on-"+nodeName {
		t.Errorf("the pods of the node, which the agent may list: %v, %v", pods, err)
	}
	if _, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("services, which the agent may not list: %v", err)
	}
	if _, err := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("secrets are served")
	}
}

// TestPlainNode checks that a node agent that does not serve objects exposes health and metrics without authentication.
func TestPlainNode(t *testing.T) {
	w := newWorld(t)
	w.namespace(t, "plain", "restricted")
	w.definePodMonitors(t)
	w.workload(t)
	mark := w.mark(t)
	release := render(t, "plain", "{node: {enabled: true, hostPath: ''}, podMonitor: {enabled: true}, "+
		"networkPolicy: {monitoring: [{namespaceSelector: {}}]}}")
	w.apply(t, release.objects...)
	pod := release.pods(t)["node"]
	node := w.sandbox(t, pod, t.TempDir(), nil).run(t)
	node.ready(t, 4)
	if code, body := node.scrape(t, release, ""); code != http.StatusOK || !strings.Contains(body, "larder_objects{") {
		t.Errorf("%d %s", code, body)
	}
	port := pod.Spec.Containers[0].Ports[0].ContainerPort
	if to := pod.Annotations["prometheus.io/port"]; to != fmt.Sprint(port) {
		t.Errorf("health is at port %d, and the annotations lead to %s", port, to)
	}
	node.stop(t)
	w.checkRights(t, release, "larder-node", mark)
	w.remove(t, release.objects...)
}
