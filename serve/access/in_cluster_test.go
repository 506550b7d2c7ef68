package access_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/access/kubeconfig"
	"github.com/larder-dev/larder/serve/access/listener"
)

type site struct {
	dir      string
	ca       []byte
	address  string
	static   *access.StaticToken
	upstream *reviewer
}

func newSite(t *testing.T, token string) *site {
	t.Helper()
	log := logr.Discard()
	s := &site{dir: filepath.Join(t.TempDir(), "tls"), upstream: newReviewer()}
	certificates, err := listener.Generate(listener.Options{Dir: s.dir, Logger: &log})
	if err != nil {
		t.Fatal(err)
	}
	s.ca = certificates.CA()
	if s.static, err = access.NewStaticToken(token, "larder"); err != nil {
		t.Fatal(err)
	}
	api, err := access.NewUpstream(s.upstream.config(), access.UpstreamOptions{
		Logger: &log, Accounts: accounts(t, clusterIssuer(t)),
	})
	if err != nil {
		t.Fatal(err)
	}
	rules := strings.NewReplacer("jane, ", "", "web, shop", "'*'").Replace(accessFile)
	rights := access.Everything{User: s.static.User(), Others: access.FallbackAuthorizer(api, offline(t, rules))}
	reviews := access.Reviews{Authorizer: rights}
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis/auth") {
			reviews.ServeHTTP(w, r)
			return
		}
		user, _ := access.UserFrom(r.Context())
		resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if err := access.Require(r.Context(), rights, read(user, "list", resource, "")); err != nil {
			access.WriteError(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"x"}}]}`))
	})
	users := access.Union(s.static, api)
	handler := access.NewHandler(next, access.HandlerOptions{Authenticator: users, Logger: &log})
	server := listener.NewServer(handler, certificates.Config(nil), access.Limits{}, log)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	var running sync.WaitGroup
	running.Go(func() { _ = server.ServeTLS(l, "", "") })
	t.Cleanup(func() {
		_ = server.Close()
		running.Wait()
	})
	return s
}

func clientset(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(config, http)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func listPods(ctx context.Context, c kubernetes.Interface) error {
	list, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err == nil && len(list.Items) != 1 {
		panic("no pods")
	}
	return err
}

// TestInCluster checks that an agent in a Pod can use a server of package access as the package documentation
// describes. rest.InClusterConfig reads from /var/run/secrets, which a test cannot write. The test therefore builds the
// same configuration: Host from the two variables, and CA and token from their files (k8s.io/client-go/rest/config.go).
func TestInCluster(t *testing.T) {
	s := newSite(t, access.NewToken())
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	mount := t.TempDir()
	ca, err := os.ReadFile(filepath.Join(s.dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	projected := sign(t, agentClaims(), jose.RS256, clusterKeys().rsa, "rsa")
	write(t, filepath.Join(mount, "ca.crt"), string(ca))
	write(t, filepath.Join(mount, "token"), projected)
	agent := clientset(t, &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, port),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(mount, "ca.crt")},
		BearerToken:     projected,
		BearerTokenFile: filepath.Join(mount, "token"),
	})
	const name = "system:serviceaccount:monitoring:agent"

	// The API server knows the agent's token, and decides about its rights.
	v := s.upstream
	v.set(func() { v.tokens[projected] = user(name) })
	if err := listPods(t.Context(), agent); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), `pods is forbidden: User "`+name+`" cannot list resource "pods" in API group "" at the cluster scope: RBAC`) {
		t.Errorf("got %v", err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: "web"},
	}}
	v.set(func() { v.allows = func(r authorizationv1.SubjectAccessReviewSpec) bool { return r.User == name } })
	answer, err := agent.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil || !answer.Status.Allowed {
		t.Errorf("got %+v, %v", answer, err)
	}
	who, err := agent.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != name {
		t.Errorf("got %+v, %v", who, err)
	}
}

// TestInClusterOffline checks that an agent is served during an outage of the API server. The cluster's stored keys
// authenticate the agent, and the OfflineAccess file gives it rights.
func TestInClusterOffline(t *testing.T) {
	s := newSite(t, access.NewToken())
	s.upstream.set(func() { s.upstream.fault = context.DeadlineExceeded })
	as := func(token string) kubernetes.Interface {
		return clientset(t, &rest.Config{
			Host: "https://" + s.address, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca}, BearerToken: token,
		})
	}
	agent := as(sign(t, agentClaims(), jose.RS256, clusterKeys().rsa, "rsa"))
	if err := listPods(t.Context(), agent); err != nil {
		t.Errorf("pods: %v", err)
	}
	if _, err := agent.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("Secrets: %v", err)
	}
	for what, token := range map[string]string{
		"forged":  sign(t, agentClaims(), jose.RS256, clusterKeys().other, "rsa"),
		"expired": sign(t, with(claims{"exp": 1}), jose.RS256, clusterKeys().rsa, "rsa"),
	} {
		if err := listPods(t.Context(), as(token)); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := listPods(t.Context(), as("")); !apierrors.IsUnauthorized(err) {
		t.Errorf("without a token: %v", err)
	}
	another := agentClaims()
	another["sub"] = "system:serviceaccount:monitoring:other"
	another["kubernetes.io"].(claims)["serviceaccount"] = claims{"name": "other"}
	if err := listPods(t.Context(), as(sign(t, another, jose.RS256, clusterKeys().rsa, "rsa"))); !apierrors.IsForbidden(err) {
		t.Errorf("an account without rights: %v", err)
	}
	// During the outage a token that only the API server can verify is unknown.
	s.upstream.set(func() { s.upstream.status = 0 })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.address+"/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer opaque")
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: s.ca}})
	if err != nil {
		t.Fatal(err)
	}
	defer (&http.Client{Transport: transport}).CloseIdleConnections()
	w, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if w.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("an opaque token: got %d", w.StatusCode)
	}
}

func TestKubeconfig(t *testing.T) {
	token := access.NewToken()
	s := newSite(t, token)
	d, err := kubeconfig.NewDirectory(kubeconfig.Config{Name: "larder", Server: "https://" + s.address, CA: s.ca, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	}()
	config, err := clientcmd.BuildConfigFromFlags("", d.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	person := clientset(t, config)
	if err := listPods(t.Context(), person); err != nil {
		t.Error(err)
	}
	if _, err := person.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("Secrets: %v", err)
	}
	asAdmin := rest.CopyConfig(config)
	asAdmin.Impersonate.UserName = "admin"
	if err := listPods(t.Context(), clientset(t, asAdmin)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "does not impersonate") {
		t.Errorf("impersonation: %v", err)
	}
	if token, access := s.upstream.counts(); token+access != 0 {
		t.Error("the process's own token was sent upstream")
	}
}
