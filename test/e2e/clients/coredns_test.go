package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

// TestCoreDNS checks that CoreDNS resolves names from a mirror, with the Corefile and the rules of docs/serve.md. It
// must still resolve them after CoreDNS and the mirror were killed and restarted without the API server, and later see
// new changes.
func TestCoreDNS(t *testing.T) {
	path := program(t, "coredns")
	client := writer(t)
	namespace(t, client, "shop")
	web := service(t, client, "web", "")
	service(t, client, "db", corev1.ClusterIPNone)
	endpoint(t, client, "shop", "db", "db-0", "10.1.0.5")
	endpoint(t, client, "shop", "db", "db-1", "10.1.0.6")
	resources := []string{"services", "endpointslices", "namespaces"}
	token := account(t, client, "kube-system", "coredns", rbacv1.PolicyRule{
		APIGroups: []string{"", discoveryv1.GroupName}, Resources: resources, Verbs: []string{"list", "watch"},
	})
	offline := filepath.Join(t.TempDir(), "offline.yaml")
	rules := documented(t, "yaml", "serviceaccount:kube-system:coredns")
	if err := os.WriteFile(offline, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	m := mirror(t, "coredns", resources, "--offline-access", offline)
	if err := m.Learned(t.Context()); err != nil { // Learned waits for the public keys of service account tokens, too
		t.Fatal(err)
	}
	d := newCoreDNS(t, path, m, token)

	d.start()
	d.resolves("web.shop.svc.cluster.local.", web)
	d.resolves("db.shop.svc.cluster.local.", "10.1.0.5", "10.1.0.6")
	d.resolves("db-0.db.shop.svc.cluster.local.", "10.1.0.5")
	d.resolves("nobody.shop.svc.cluster.local.")

	site.Server.StopAPIServer()
	away := true
	defer func() {
		if away {
			if err := site.Server.StartAPIServer(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}()
	d.process.Kill()
	d.start()
	d.resolves("web.shop.svc.cluster.local.", web)
	d.process.Kill()
	m.Kill()
	restart(t, m)
	d.start()
	d.resolves("web.shop.svc.cluster.local.", web)
	d.resolves("db.shop.svc.cluster.local.", "10.1.0.5", "10.1.0.6")
	d.resolves("db-1.db.shop.svc.cluster.local.", "10.1.0.6")
	d.resolves("nobody.shop.svc.cluster.local.")

	if err := site.Server.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	away = false
	added := service(t, client, "added", "")
	endpoint(t, client, "shop", "db", "db-2", "10.1.0.7")
	if err := client.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.resolves("added.shop.svc.cluster.local.", added)
	d.resolves("db.shop.svc.cluster.local.", "10.1.0.5", "10.1.0.6", "10.1.0.7")
	d.resolves("web.shop.svc.cluster.local.")
}

type coreDNS struct {
	t        *testing.T
	path     string
	corefile string
	resolver *net.Resolver
	process  *controlplane.Process
}

func newCoreDNS(t *testing.T, path string, m *served.Mirror, token string) *coreDNS {
	t.Helper()
	l, err := controlplane.Listen()
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(":53 {", ":"+port+" {\n    bind 127.0.0.1", "/etc/coredns/larder.kubeconfig",
		kubeconfig(t, m, token)).Replace(documented(t, "corefile", "kubernetes"))
	d := &coreDNS{t: t, path: path, corefile: filepath.Join(t.TempDir(), "Corefile")}
	if err := os.WriteFile(d.corefile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	return d
}

func (d *coreDNS) start() {
	d.t.Helper()
	d.process = start(d.t, d.path, nil, "-conf", d.corefile)
}

// resolves waits until CoreDNS resolves a name to exactly these addresses. Without addresses, the name must not exist.
func (d *coreDNS) resolves(name string, want ...string) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%s resolves to %s", name, want), func() error {
		got, err := d.resolver.LookupHost(d.t.Context(), name)
		var failed *net.DNSError
		if len(want) == 0 && errors.As(err, &failed) && failed.IsNotFound {
			return nil
		}
		slices.Sort(got)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("it resolves to %s", got)
		}
		return err
	}, d.process)
}

// documented returns the code block of docs/serve.md in the given language that contains the text has.
func documented(t *testing.T, language, has string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "serve.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "```"+language+"\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, has) {
			return block
		}
	}
	t.Fatalf("docs/serve.md has no block of %s with %q", language, has)
	return ""
}

func service(t *testing.T, client kubernetes.Interface, name, address string) string {
	t.Helper()
	s, err := client.CoreV1().Services("shop").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: address, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Spec.ClusterIP
}

func endpoint(t *testing.T, client kubernetes.Interface, namespace, service, host, address string) {
	t.Helper()
	name, port, ready := "http", int32(80), true
	_, err := client.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: host, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address}, Hostname: &host, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
