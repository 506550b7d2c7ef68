package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/config"
	reading "github.com/larder-dev/larder/internal/source"
)

// deployed are the resources of the kinds in deploy/kubernetes.
var deployed = map[string]schema.GroupVersionResource{
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"ConfigMap":          {Version: "v1", Resource: "configmaps"},
	"DaemonSet":          {Group: "apps", Version: "v1", Resource: "daemonsets"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
}

// TestDaemonSet: the manifest is what a server takes, its configuration is one, and its service account may do what a
// sync with that configuration does: everything is listed and watched, and no guard is off.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	cp := ownControlPlane(t, "--authorization-mode=RBAC")
	c := newCluster(t, cp)
	client, err := dynamic.NewForConfig(cp.Config("deploy"))
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, u := range manifest(t, "daemonset.yaml") {
		objects := client.Resource(deployed[u.GetKind()]).Namespace(u.GetNamespace())
		if _, err := objects.Create(t.Context(), u,
			metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
		if u.GetKind() == "DaemonSet" {
			checkPod(t, u)
		}
		if u.GetKind() == "ConfigMap" {
			text, _, _ = unstructured.NestedString(u.Object, "data", "sync.yaml")
		}
	}
	for i, node := range []string{"node-1", "node-2"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: c.ns}, Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}
		if _, err := c.client.CoreV1().Pods(c.ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	dir := t.TempDir()
	sync := filepath.Join(dir, "sync.yaml")
	text = strings.ReplaceAll(text, "0.0.0.0:9470", "127.0.0.1:0")
	if err := os.WriteFile(sync, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	larder := buildLarder(t, dir)
	cmd := exec.Command(larder, "sync", "--config", sync, "--store", filepath.Join(dir, "s.db"), "--kubeconfig",
		accountKubeconfig(t, c, dir))
	cmd.Env = append(os.Environ(), "NODE_NAME=node-1")
	p := startProgram(t, cmd, filepath.Join(dir, "log"), func([]byte) {})
	wanted := parseAs(t, sync, "node-1")
	p.eventually(t, "a mirror by the service account", func() string {
		out, err := exec.Command(larder, "status", "--from", filepath.Join(dir, "s.db"), "-o", "json").Output()
		var status reading.Status
		if err != nil || json.Unmarshal(out, &status) != nil {
			return fmt.Sprintf("status: %v", err)
		}
		return notMirrored(status, wanted)
	})
	p.terminate(t)
}

// checkPod: the pods come to every node, whatever its taints, and the directory on it is theirs with all that is in it,
// whoever wrote that.
func checkPod(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	var ds appsv1.DaemonSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &ds); err != nil {
		t.Fatal(err)
	}
	pod := ds.Spec.Template.Spec
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		taint := &corev1.Taint{Key: "node-role.kubernetes.io/edge", Value: "x", Effect: effect}
		if !slices.ContainsFunc(pod.Tolerations,
			func(o corev1.Toleration) bool { return o.ToleratesTaint(klog.Background(), taint, false) }) {
			t.Errorf("the pods do not tolerate %s", taint.ToString())
		}
	}
	owner := fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup)
	store := pod.InitContainers[0].VolumeMounts[0].MountPath
	if got, want := pod.InitContainers[0].Command,
		[]string{"/usr/local/bin/larder", "chown", owner, store}; !slices.Equal(got, want) {
		t.Errorf("the init container runs %q, want %q", got, want)
	}
}

// parseAs parses the configuration as a pod on that node does.
func parseAs(t *testing.T, path, node string) *config.Config {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(path, []byte(strings.ReplaceAll(string(data), "$(NODE_NAME)", node)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// notMirrored is what is missing from a mirror of the configuration.
func notMirrored(s reading.Status, c *config.Config) string {
	if len(s.Collections) != len(c.Resources) {
		return fmt.Sprintf("%d collections of %d", len(s.Collections), len(c.Resources))
	}
	for _, collection := range s.Collections {
		live := collection.Live
		if live == nil || !live.Synced || live.Error != "" || len(live.Unguarded) > 0 {
			return fmt.Sprintf("%s: %+v", collection.Resource, live)
		}
		if collection.Resource == "pods" && (collection.Objects != 1 || collection.FieldSelector != "spec.nodeName=node-1") {
			return fmt.Sprintf("%d pods of %s", collection.Objects, collection.FieldSelector)
		}
	}
	return ""
}

// manifest reads the objects of a file of deploy/kubernetes.
func manifest(t *testing.T, name string) (all []*unstructured.Unstructured) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "deploy", "kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	decoder := utilyaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); err != nil {
			if len(all) == 0 {
				t.Fatal(err)
			}
			return all
		}
		if u.Object != nil {
			all = append(all, u)
		}
	}
}

// accountKubeconfig writes a kubeconfig with a token of the service account. It has the rights of that, and no more.
func accountKubeconfig(t *testing.T, c *cluster, dir string) string {
	t.Helper()
	request, err := c.client.CoreV1().ServiceAccounts("larder").CreateToken(t.Context(), "larder",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server := c.Config("larder")
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: server.Host, CertificateAuthorityData: server.CAData}
	kubeconfig.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	kubeconfig.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	kubeconfig.CurrentContext = "x"
	path := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	if _, err := client.Resource(secrets).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the service account may list secrets: %v", err)
	}
	return path
}
