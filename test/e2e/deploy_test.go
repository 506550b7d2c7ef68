package e2e

import (
	"bytes"
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
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/config"
	reading "github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve/access/listener"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// deployed are the resources of the kinds in deploy/kubernetes.
var deployed = map[string]schema.GroupVersionResource{
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"ConfigMap":          {Version: "v1", Resource: "configmaps"},
	"DaemonSet":          {Group: "apps", Version: "v1", Resource: "daemonsets"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Service":            {Version: "v1", Resource: "services"},
}

// TestDaemonSet: the manifests are what a server takes, the configuration is one, and the service account may do what a
// sync with that configuration does: everything is listed and watched, no guard is off, and agents of the node read
// what they may, and nothing else.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	cp := ownControlPlane(t, "--authorization-mode=RBAC")
	c := newCluster(t, cp)
	client, err := dynamic.NewForConfig(cp.Config("deploy"))
	if err != nil {
		t.Fatal(err)
	}
	text, args := "", []string(nil)
	for _, u := range manifests(t, "kubernetes-serve") {
		objects := client.Resource(deployed[u.GetKind()]).Namespace(u.GetNamespace())
		if _, err := objects.Create(t.Context(), u,
			metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
		if u.GetKind() == "DaemonSet" {
			args = checkPod(t, u)
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
	logger := klog.Background()
	certificates, err := listener.Generate(listener.Options{Dir: filepath.Join(dir, "tls"), Logger: &logger})
	if err != nil {
		t.Fatal(err)
	}
	pem := filepath.Join(dir, "tls", "serving.pem")
	here := strings.NewReplacer("/etc/larder/sync.yaml", sync, "0.0.0.0:6444", "127.0.0.1:0",
		"/etc/larder-tls/tls.crt", pem, "/etc/larder-tls/tls.key", pem)
	for i := range args {
		args[i] = here.Replace(args[i])
	}
	store := filepath.Join(dir, "s.db")
	cmd := exec.Command(larder, append(args, "--store", store, "--kubeconfig", accountKubeconfig(t, c, dir))...)
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
	checkAgent(t, c, store+".kubeconfig", certificates.CA())
	p.terminate(t)
}

// checkAgent: an agent with the token of its own service account reads what it may, by the API server's word.
func checkAgent(t *testing.T, c *cluster, served string, authority []byte) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "agent", Namespace: c.ns}
	_, err := c.client.CoreV1().ServiceAccounts(c.ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta},
		metav1.CreateOptions{})
	if err == nil {
		_, err = c.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta,
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}}},
			metav1.CreateOptions{})
	}
	if err == nil {
		_, err = c.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "agent"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "agent", Namespace: c.ns}}}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.client.CoreV1().ServiceAccounts(c.ns).CreateToken(t.Context(), "agent",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", served)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: config.Host, BearerToken: token.Status.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("nodes, which the agent may list: %v", err)
	}
	if _, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("services, which the agent may not list: %v", err)
	}
}

// checkPod: the pods come to every node, whatever its taints, and the directory on it is theirs with all that is in it,
// whoever wrote that. It returns the arguments of larder.
func checkPod(t *testing.T, u *unstructured.Unstructured) (args []string) {
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
	return pod.Containers[0].Args
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

// manifests returns the objects that kubectl makes of a directory of deploy.
func manifests(t *testing.T, dir string) (all []*unstructured.Unstructured) {
	t.Helper()
	binaries, err := controlplane.Binaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kubectl := filepath.Join(binaries, "kubectl")
	out, err := exec.Command(kubectl, "kustomize", filepath.Join("..", "..", "deploy", dir)).Output()
	if err != nil {
		t.Fatal(err)
	}
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096); ; {
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
