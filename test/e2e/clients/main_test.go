// Package clients runs third-party programs, which do not import Larder, on a larder sync --serve that is killed and
// restarted: client-go's informers, a controller-runtime manager, CoreDNS and, in the soak, Prometheus and stern.
// test/clients pins each program in a module of its own.
package clients

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

const patience = 2 * time.Minute

var soak = os.Getenv("LARDER_SOAK") != ""

var site *served.Site

func TestMain(m *testing.M) {
	if os.Getenv(informersEnv) != "" {
		os.Exit(informersMain())
	}
	o := controlplane.Options{Args: []string{"--authorization-mode=RBAC"}}
	served.Run("clients", o, func(s *served.Site) (int, error) {
		site = s
		return m.Run(), nil
	})
}

// program returns the path of a program of test/clients. The first call on a machine builds the program, which takes
// minutes. make clients builds all programs beforehand.
func program(t *testing.T, name string) string {
	t.Helper()
	return toolOf(t, name, name)
}

func toolOf(t *testing.T, module, name string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", name)
	cmd.Dir = filepath.Join("..", "..", "clients", module)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func start(t *testing.T, path string, env []string, args ...string) *controlplane.Process {
	t.Helper()
	name := filepath.Base(path)
	p, err := controlplane.StartProcess(name, filepath.Join(site.Dir, name+".log"), env, path, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func mirror(t *testing.T, name string, resources []string, flags ...string) *served.Mirror {
	t.Helper()
	m, err := site.Mirror(t.Context(), name, resources, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := m.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

func restart(t *testing.T, m *served.Mirror) {
	t.Helper()
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func writer(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(site.Server.Config(controlplane.Writer))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func namespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func account(t *testing.T, client kubernetes.Interface, namespace, name string, rights ...rbacv1.PolicyRule) string {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name}
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta},
		metav1.CreateOptions{})
	if err == nil {
		_, err = client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rights},
			metav1.CreateOptions{})
	}
	if err == nil {
		_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

func kubeconfig(t *testing.T, m *served.Mirror, token string) string {
	t.Helper()
	config, err := m.Config("")
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.BearerToken = token
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := served.WriteKubeconfig(path, config); err != nil {
		t.Fatal(err)
	}
	return path
}

func eventually(t *testing.T, what string, check func() error, running ...*controlplane.Process) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		for _, p := range running {
			if exited := p.Exited(); exited != nil {
				t.Fatalf("%s: %v; %v", what, err, exited)
			}
		}
		if time.Now().After(deadline) {
			for _, p := range running {
				err = fmt.Errorf("%w\n%s", err, p.Log())
			}
			t.Fatalf("%s: %v", what, err)
		}
	}
}
