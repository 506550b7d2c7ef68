package access

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	strangersNamespace = "strangers"
	secretName         = "hidden-name"
	secretValue        = "hidden-value"
	podName            = "private-pod"
)

type stranger struct {
	name, token string
	mayPods     bool
	// codes has the expected statuses of all answers. If codes is empty, any status is expected.
	codes []int
}

// TestStrangers sends every kind of request to larder sync --serve: without rights, with wrong tokens and as larder's
// own user. No answer may contain Secrets or objects that the client may not see.
func TestStrangers(t *testing.T) {
	ctx := t.Context()
	admin, err := kubernetes.NewForConfig(server.Config("larder"))
	if err != nil {
		t.Fatal(err)
	}
	some, nothing := createHidden(ctx, t, admin)
	secrets := []string{secretName, secretValue, base64.StdEncoding.EncodeToString([]byte(secretValue))}
	for _, withSecrets := range []bool{false, true} {
		flags := []string{"--persist-secrets"}
		if withSecrets {
			flags = append(flags, "--serve-secrets")
		}
		m, err := around.Mirror(ctx, fmt.Sprintf("strangers-%t", withSecrets), []string{"secrets", "pods", "namespaces"},
			flags...)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := m.Stop(); err != nil {
				t.Error(err)
			}
		}()
		if err := m.Synced(ctx); err != nil {
			t.Fatal(err)
		}
		config, err := m.Config("stranger")
		if err != nil {
			t.Fatal(err)
		}
		unauthorized := []int{http.StatusUnauthorized}
		for _, who := range []stranger{
			{"larder's own user", config.BearerToken, true, nil},
			{"a service account that may read pods", some, true, nil},
			{"a service account without rights", nothing, false, nil},
			{"no token", "", false, unauthorized},
			{"a wrong token", "wrong", false, unauthorized},
			{"a token that goes on", config.BearerToken + "x", false, unauthorized},
			{"the start of a token", config.BearerToken[:len(config.BearerToken)-1], false, unauthorized},
			{"a token of the API server's own user", server.Config("").BearerToken + "x", false, unauthorized},
		} {
			forbidden := append([]string{}, secrets...)
			owner := who.token == config.BearerToken
			if owner && withSecrets {
				forbidden = nil
			}
			if !who.mayPods {
				forbidden = append(forbidden, podName)
			}
			who.ask(t, config, forbidden)
		}
		if found := answers(t, config, config.BearerToken); withSecrets != strings.Contains(found, secretName) ||
			!strings.Contains(found, podName) {
			t.Errorf("with Secrets %t: larder's own user does not see what there is", withSecrets)
		}
	}
}

// createHidden creates the hidden objects. It returns two tokens: some may read pods, nothing has no rights.
func createHidden(ctx context.Context, t *testing.T, admin kubernetes.Interface) (some, nothing string) {
	t.Helper()
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: strangersNamespace}
	}
	core := admin.CoreV1()
	_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: strangersNamespace}},
		metav1.CreateOptions{})
	if err == nil {
		_, err = core.Secrets(strangersNamespace).Create(ctx, &corev1.Secret{ObjectMeta: named(secretName),
			StringData: map[string]string{"key": secretValue}}, metav1.CreateOptions{})
	}
	for _, name := range []string{"default", "some", "none"} {
		if err == nil {
			_, err = core.ServiceAccounts(strangersNamespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: named(name)},
				metav1.CreateOptions{})
		}
	}
	if err == nil {
		no := false
		_, err = core.Pods(strangersNamespace).Create(ctx, &corev1.Pod{ObjectMeta: named(podName), Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
		}}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = admin.RbacV1().Roles(strangersNamespace).Create(ctx, &rbacv1.Role{ObjectMeta: named("some"),
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
			}}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = admin.RbacV1().RoleBindings(strangersNamespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: named("some"),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "some"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "some", Namespace: strangersNamespace}},
		}, metav1.CreateOptions{})
	}
	tokens := map[string]string{}
	for _, name := range []string{"some", "none"} {
		if err != nil {
			break
		}
		var made *authenticationv1.TokenRequest
		made, err = core.ServiceAccounts(strangersNamespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{},
			metav1.CreateOptions{})
		if err == nil {
			tokens[name] = made.Status.Token
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return tokens["some"], tokens["none"]
}

func questions() (all []string) {
	const ns = "/namespaces/" + strangersNamespace
	for _, path := range []string{
		"/api/v1/secrets", "/api/v1" + ns + "/secrets", "/api/v1" + ns + "/secrets/" + secretName, "/api/v1/pods",
		"/api/v1" + ns + "/pods", "/api/v1" + ns + "/pods/" + podName, "/api/v1" + ns + "/pods/" + podName + "/status",
		"/api/v1" + ns + "/pods/" + podName + "/log", "/api/v1/watch/secrets",
		"/api/v1" + ns + "/secrets/" + secretName + "/status",
	} {
		all = append(all, path, path+"?limit=1", path+"?resourceVersion=0", path+"?labelSelector=!x",
			path+"?fieldSelector=metadata.name="+path[strings.LastIndex(path, "/")+1:], path+"?includeObject=Object",
			path+"?watch=1&timeoutSeconds=1", path+"?watch=1&timeoutSeconds=1&resourceVersion=1",
			path+"?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1")
	}
	return append(all, "/", "/page/app.js", "/larder/status", "/larder/changes", "/larder/compare",
		"/api", "/apis", "/api/v1", "/version", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v2",
		"/healthz", "/metrics", "/debug/pprof/", "/logs", "/nope")
}

const atOnce = 60

var formats = []string{
	"application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
	"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
	"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
}

// ask sends all requests of questions as this client, and searches the headers and bodies of the answers for forbidden
// text.
func (s stranger) ask(t *testing.T, config *rest.Config, forbidden []string) {
	t.Helper()
	each(t, config, s.token, func(question string, code int, answer []byte) {
		for _, text := range forbidden {
			if bytes.Contains(answer, []byte(text)) && !inQuestion(question, text, code, answer) {
				t.Errorf("%s: %s: the answer (%d) has %q:\n%.300s", s.name, question, code, text, answer)
			}
		}
		path, _, _ := strings.Cut(question, " ")
		if path == "/" || strings.HasPrefix(path, "/page/") { // the static files of the page are public
			if code != http.StatusOK {
				t.Errorf("%s: %s: %d", s.name, question, code)
			}
		} else if len(s.codes) > 0 && code != s.codes[0] {
			t.Errorf("%s: %s: %d", s.name, question, code)
		}
	})
}

// inQuestion reports whether an error's text contains a forbidden name only because the request contained that name.
func inQuestion(question, text string, code int, answer []byte) bool {
	return code >= 400 && text != secretValue && strings.Contains(question, text) &&
		!bytes.Contains(answer, []byte(secretValue)) && !bytes.Contains(answer, []byte(`"uid"`))
}

func answers(t *testing.T, config *rest.Config, token string) string {
	t.Helper()
	var all strings.Builder
	each(t, config, token, func(_ string, code int, answer []byte) {
		if code == http.StatusOK {
			all.Write(answer)
		}
	})
	return all.String()
}

// addresses counts the connections of dialFromAnother, each of which has a new local address.
var addresses atomic.Uint32

// dialFromAnother dials from a new loopback address each time, where the system permits that: larder delays its answers
// to an address with many refusals by a second.
func dialFromAnother(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	if n := addresses.Add(1); runtime.GOOS == "linux" {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))}
	}
	return d.DialContext(ctx, network, address)
}

// each sends all requests of questions in all formats, in parallel because a watch takes a second. It passes each
// response to fn.
func each(t *testing.T, config *rest.Config, token string, fn func(question string, code int, answer []byte)) {
	t.Helper()
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: tls, MaxIdleConnsPerHost: atOnce, DialContext: dialFromAnother}
	defer transport.CloseIdleConnections()
	type result struct {
		question string
		code     int
		answer   []byte
		err      error
	}
	results, running, slots := make(chan result), 0, make(chan struct{}, atOnce)
	for _, path := range questions() {
		for _, accept := range formats {
			running++
			go func() {
				slots <- struct{}{}
				r := result{question: path + " " + accept}
				defer func() {
					<-slots
					results <- r
				}()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil)
				if err != nil {
					r.err = err
					return
				}
				request.Header.Set("Accept", accept)
				if token != "" {
					request.Header.Set("Authorization", "Bearer "+token)
				}
				response, err := transport.RoundTrip(request)
				if err != nil {
					r.err = err
					return
				}
				body, err := io.ReadAll(response.Body)
				r.code, r.err = response.StatusCode, err
				_ = response.Body.Close()
				r.answer = fmt.Appendf(body, "%v", response.Header)
			}()
		}
	}
	for range running {
		r := <-results
		if r.err != nil {
			t.Errorf("%s: %v", r.question, r.err)
			continue
		}
		fn(r.question, r.code, r.answer)
	}
}
