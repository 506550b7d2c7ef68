// Package access compares package serve/access with kube-apiserver: authentication, authorization, and refusals.
package access

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/access/kubeconfig"
	"github.com/larder-dev/larder/serve/access/listener"
	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

// The control plane (without anonymous access), its kubectl, and the Site that runs both. TestMain sets them.
var (
	around  *served.Site
	server  *controlplane.ControlPlane
	kubectl string
)

func TestMain(m *testing.M) {
	o := controlplane.Options{Args: []string{"--authorization-mode=RBAC", "--anonymous-auth=false"}}
	served.Run("access", o, func(s *served.Site) (int, error) {
		around, server, kubectl = s, s.Server, s.Kubectl
		return m.Run(), nil
	})
}

const offline = `
apiVersion: larder.dev/v1alpha1
kind: OfflineAccess
rules:
- users: ["system:serviceaccount:monitoring:agent"]
  resources: [pods, nodes]
  namespaces: ["*"]
`

// site is larder's authentication and authorization (package serve/access) behind an HTTP server.
type site struct {
	config *rest.Config
	dir    *kubeconfig.Directory
}

func newSite(t *testing.T) *site {
	t.Helper()
	log := logr.Discard()
	certificates, err := listener.Generate(listener.Options{Dir: filepath.Join(t.TempDir(), "tls"), Logger: &log})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(server.Config("larder"))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := access.FetchIssuer(t.Context(), client.CoreV1().RESTClient())
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := access.NewServiceAccounts(issuer)
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := access.NewUpstream(server.Config("larder"), access.UpstreamOptions{Logger: &log, Accounts: accounts})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "offline.yaml")
	if err := os.WriteFile(path, []byte(offline), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := access.NewOfflineAccess(path, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	token := access.NewToken()
	own, err := access.NewStaticToken(token, "larder")
	if err != nil {
		t.Fatal(err)
	}
	rights := access.Everything{User: own.User(), Others: access.FallbackAuthorizer(upstream, rules)}
	handler := access.NewHandler(refusals(rights), access.HandlerOptions{
		Authenticator: access.Union(own, upstream), Logger: &log,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := listener.NewServer(handler, certificates.Config(nil), access.Limits{}, log)
	var running sync.WaitGroup
	running.Go(func() { _ = s.ServeTLS(l, "", "") })
	t.Cleanup(func() {
		_ = s.Close()
		running.Wait()
	})
	made := &site{config: &rest.Config{
		Host: "https://" + l.Addr().String(), TLSClientConfig: rest.TLSClientConfig{CAData: certificates.CA()}, BearerToken: token,
	}}
	made.dir, err = kubeconfig.NewDirectory(kubeconfig.Config{
		Name: "larder", Server: made.config.Host, CA: certificates.CA(), Token: token,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.dir.Remove(); err != nil {
			t.Error(err)
		}
	})
	return made
}

// refusals returns a handler for access reviews. It answers permitted lists with 204, and other lists with larder's
// refusal.
func refusals(rights access.Authorizer) http.Handler {
	reviews := access.Reviews{Authorizer: rights}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis/auth") {
			reviews.ServeHTTP(w, r)
			return
		}
		user, _ := access.UserFrom(r.Context())
		a := access.Attributes{User: user, Verb: "get", Path: r.URL.Path}
		if rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/"); ok {
			a = access.Attributes{User: user, Verb: "list", Version: "v1", Resource: rest}
			if inside, ok := strings.CutPrefix(rest, "namespaces/"); ok {
				parts := strings.Split(inside, "/")
				a.Namespace, a.Resource = parts[0], parts[1]
				if len(parts) > 2 {
					a.Verb, a.Name = "get", parts[2]
				}
			}
		}
		if err := access.Require(r.Context(), rights, a); err != nil {
			access.WriteError(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func agent(t *testing.T, client kubernetes.Interface, namespace string) (token string) {
	t.Helper()
	ctx := t.Context()
	meta := metav1.ObjectMeta{Name: "agent", Namespace: namespace}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err == nil {
		_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			ServiceAccountName: "agent", Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}, metav1.CreateOptions{})
	}
	if err == nil {
		// No controller aggregates cluster roles in this control plane, so the built-in role view is empty.
		_, err = client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{
			ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
				Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"", "apps"}, Resources: []string{"pods", "deployments"},
			}},
		}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "agent"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "agent", Namespace: namespace}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "agent"},
	}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "agent", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

func with(c *rest.Config, token string) *rest.Config {
	c = rest.CopyConfig(c)
	c.BearerToken = token
	return c
}

// answer has the parts of an HTTP answer that are compared between kube-apiserver and larder.
type answer struct {
	Code                              int
	Type, Cache, Options, Retry, Body string
}

func ask(t *testing.T, config *rest.Config, token, method, path, body string, header map[string]string) answer {
	t.Helper()
	c := with(config, "")
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, c.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	h := w.Header
	return answer{
		w.StatusCode, h.Get("Content-Type"), h.Get("Cache-Control"), h.Get("X-Content-Type-Options"),
		h.Get("Retry-After"), string(text),
	}
}

func TestAccess(t *testing.T) {
	s, fresh := newSite(t), newSite(t)
	upstream := server.Config("access")
	admin, err := kubernetes.NewForConfig(upstream)
	if err != nil {
		t.Fatal(err)
	}
	token := agent(t, admin, "monitoring")
	here, there := with(s.config, token), with(upstream, token)

	t.Run("who", func(t *testing.T) {
		want, got := whoAmI(t, there), whoAmI(t, here)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("of the API server and ours:\n%s", diff)
		}
	})
	t.Run("may", func(t *testing.T) { compareReviews(t, there, here) })
	t.Run("refusals", func(t *testing.T) { compareRefusals(t, upstream, s.config, token) })
	t.Run("kubectl", func(t *testing.T) {
		out := run(t, s, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
		if out != "larder" {
			t.Errorf("whoami: %s", out)
		}
		for verb, want := range map[string]string{"list": "yes", "delete": "no"} {
			out := run(t, s, "auth", "can-i", verb, "pods")
			if !strings.Contains(out, want) {
				t.Errorf("can-i %s: %s", verb, out)
			}
		}
		if out := run(t, s, "auth", "can-i", "--list"); !strings.Contains(out, "[get list watch]") {
			t.Errorf("can-i --list: %s", out)
		}
		if out := run(t, s, "auth", "can-i", "list", "pods", "--as", "admin"); !strings.Contains(out, "does not impersonate") {
			t.Errorf("--as: %s", out)
		}
	})

	known := whoAmI(t, there)
	server.StopAPIServer()
	t.Cleanup(func() {
		if err := server.StartAPIServer(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("offline", func(t *testing.T) {
		s, here := fresh, with(fresh.config, token) // this site has not cached answers of the API server
		if diff := cmp.Diff(known, whoAmI(t, here)); diff != "" {
			t.Errorf("with and without the API server:\n%s", diff)
		}
		for path, want := range map[string]int{
			"/api/v1/pods": http.StatusNoContent, "/api/v1/nodes": http.StatusNoContent, "/version": http.StatusNoContent,
			"/api/v1/secrets": http.StatusForbidden, "/api/v1/configmaps": http.StatusForbidden,
		} {
			if got := ask(t, s.config, token, http.MethodGet, path, "", nil); got.Code != want {
				t.Errorf("%s: got %+v", path, got)
			}
		}
		got := ask(t, s.config, "opaque-token", http.MethodGet, "/api/v1/pods", "", nil)
		if got.Code != http.StatusServiceUnavailable || got.Retry != "1" {
			t.Errorf("a token that only the API server knows: got %+v", got)
		}
		if got := ask(t, s.config, token+"x", http.MethodGet, "/api/v1/pods", "", nil); got.Code != http.StatusUnauthorized {
			t.Errorf("a forged token: got %+v", got)
		}
	})
}

// TestRevokedToken checks a token whose Pod is deleted. The API server refuses it, although its signature stays valid.
func TestRevokedToken(t *testing.T) {
	s := newSite(t)
	admin, err := kubernetes.NewForConfig(server.Config("access"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	token := agent(t, admin, "revoked")
	none := int64(0)
	if err := admin.CoreV1().Pods("revoked").Delete(ctx, "agent", metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := kubernetes.NewForConfigOrDie(with(server.Config("access"), token)).Discovery().ServerVersion()
		if apierrors.IsUnauthorized(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the API server accepts the token: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := ask(t, s.config, token, http.MethodGet, "/api/v1/pods", "", nil); got.Code != http.StatusUnauthorized {
		t.Errorf("got %+v", got)
	}
}

func whoAmI(t *testing.T, c *rest.Config) authenticationv1.UserInfo {
	t.Helper()
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.UserInfo
}

func compareReviews(t *testing.T, there, here *rest.Config) {
	yes := 0
	for _, namespace := range []string{"", "monitoring", "default"} {
		for _, resource := range []string{"pods", "secrets", "nodes", "deployments", "*"} {
			for _, verb := range []string{"get", "list", "watch"} {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: namespace},
				}}
				if resource == "deployments" {
					review.Spec.ResourceAttributes.Group = "apps"
				}
				var answers [2]*authorizationv1.SelfSubjectAccessReview
				for i, c := range []*rest.Config{there, here} {
					client, err := kubernetes.NewForConfig(c)
					if err != nil {
						t.Fatal(err)
					}
					answers[i], err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
					if err != nil {
						t.Fatal(err)
					}
					answers[i].ManagedFields = nil
				}
				if !reflect.DeepEqual(answers[0], answers[1]) {
					t.Errorf("%s %s in %q:\n%s", verb, resource, namespace, cmp.Diff(answers[0], answers[1]))
				}
				if answers[1].Status.Allowed {
					yes++
				}
			}
		}
	}
	if yes == 0 {
		t.Error("the agent may do nothing")
	}
}

// compareRefusals compares the answers of kube-apiserver and larder to the same forbidden or malformed requests.
func compareRefusals(t *testing.T, there, here *rest.Config, token string) {
	const ssar = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	const ssrr = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
	for _, c := range []struct {
		token, method, path, body string
		header                    map[string]string
		loose                     bool
	}{
		{method: "GET", path: "/api/v1/pods"},
		{method: "GET", path: "/api/v1/pods", header: map[string]string{"Accept": "application/yaml"}},
		{method: "GET", path: "/api/v1/pods", header: map[string]string{"Accept": "application/vnd.kubernetes.protobuf,application/json"}},
		{method: "GET", path: "/api/v1/pods", header: map[string]string{"User-Agent": "curl/8"}},
		{method: "GET", path: "/api/v1/pods?pretty=1"},
		{method: "GET", path: "/version"},
		{method: "GET", path: "/api/v1/pods", header: map[string]string{"Accept": "text/html"}},
		{method: "GET", path: "/api/v1/pods", header: map[string]string{
			"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
		}},
		{method: "GET", path: "/api/v1/pods", token: "wrong"},
		{method: "GET", path: "/api/v1/pods", token: token + "x"},
		{method: "GET", path: "/api/v1/pods", header: map[string]string{"Authorization": "Basic eDp5"}},
		{method: "GET", path: "/api/v1/pods", header: map[string]string{"Authorization": "Bearer"}},
		{method: "POST", path: ssar, body: "{}"},
		{method: "GET", path: "/api/v1/pods", token: token},
		{method: "GET", path: "/api/v1/nodes", token: token},
		{method: "GET", path: "/api/v1/namespaces/default/pods", token: token},
		{method: "GET", path: "/api/v1/namespaces/default/pods/x", token: token},
		{method: "GET", path: "/api/v1/secrets", token: token, header: map[string]string{"Accept": "application/yaml"}},
		{method: "GET", path: "/metrics", token: token},
		{method: "GET", path: "/logs/%3Cb%3E", token: token},
		{method: "POST", path: ssar, token: token, body: "{}"},
		{method: "POST", path: ssar, token: token, body: `x`, header: map[string]string{"Content-Type": "text/plain"}},
		{method: "POST", path: ssrr, token: token, body: `{}`},
		{method: "GET", path: ssar, token: there.BearerToken},
		{method: "PUT", path: ssar, token: there.BearerToken, body: "{}"},
		{method: "DELETE", path: ssrr, token: there.BearerToken},
		// The text of these errors is not compared: kube-apiserver names Go fields, its managedFields or its parser.
		{method: "POST", path: ssar, token: token, loose: true, body: `{"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}`},
		{method: "POST", path: ssar, token: token, loose: true, body: `{"metadata":{"name":"x"},"spec":{"resourceAttributes":{}}}`},
		{method: "POST", path: ssar, token: token, loose: true},
		{method: "POST", path: ssar, token: token, loose: true, body: `{`},
		{method: "POST", path: ssar, token: token, loose: true, body: `{"kind":"Pod","apiVersion":"v1"}`},
		{method: "POST", path: ssar, token: token, loose: true, body: strings.Repeat(" ", 4<<20)},
	} {
		want := ask(t, there, c.token, c.method, c.path, c.body, c.header)
		got := ask(t, here, c.token, c.method, c.path, c.body, c.header)
		if c.loose {
			want.Body, got.Body = "", ""
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s %.80q %v (token %v), of the API server and ours:\n%s",
				c.method, c.path, c.body, c.header, c.token != "", diff)
		}
	}
}

func run(t *testing.T, s *site, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, kubectl, args...)
	cmd.Env = s.dir.Environ(os.Environ())
	out, _ := cmd.CombinedOutput() // kubectl auth can-i exits with 1 for "no"
	return string(out)
}
