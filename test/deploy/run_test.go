package deploy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/source"
)

// ready waits until the pod's probes succeed and all of its collections are synced.
func (r *running) ready(t *testing.T, collections int) {
	t.Helper()
	c := r.pod.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		eventually(t, r.pod.Name+probe.HTTPGet.Path, func() string {
			code, body := get(t, http.DefaultClient, "http://"+r.ports[probe.HTTPGet.Port.String()]+probe.HTTPGet.Path, "")
			if code != http.StatusOK {
				return fmt.Sprintf("%d %s\n%s", code, body, r.text(t))
			}
			return ""
		})
	}
	store := r.local("/var/lib/larder/cluster.db")
	eventually(t, r.pod.Name+" mirrors", func() string {
		out, err := exec.Command(r.w.larder, "status", "--from", store, "-o", "json").Output()
		var status source.Status
		if err != nil || json.Unmarshal(out, &status) != nil {
			return fmt.Sprintf("status: %v", err)
		}
		if len(status.Collections) != collections {
			return fmt.Sprintf("%d collections of %d", len(status.Collections), collections)
		}
		for _, c := range status.Collections {
			if c.Live == nil || !c.Live.Synced || c.Live.Error != "" || len(c.Live.Unguarded) > 0 {
				return fmt.Sprintf("%s: %+v", c.Resource, c.Live)
			}
		}
		return ""
	})
}

func get(t *testing.T, client *http.Client, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(body)
}

// scrape requests a pod's metrics with a token, at the address that Prometheus would find by the PodMonitor. It returns
// status and body.
func (r *running) scrape(t *testing.T, release *release, token string) (int, string) {
	t.Helper()
	monitor := release.find(t, "PodMonitor", strings.TrimSuffix(r.pod.Name, "-0"))
	endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
	if err != nil || len(endpoints) != 1 {
		t.Fatal(endpoints, err)
	}
	endpoint := endpoints[0].(map[string]any)
	text := func(path ...string) string {
		s, _, err := unstructured.NestedString(endpoint, path...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if text("scheme") != "https" {
		return get(t, http.DefaultClient, "http://"+r.ports[text("port")]+"/metrics", token)
	}
	name, key := text("tlsConfig", "ca", "secret", "name"), text("tlsConfig", "ca", "secret", "key")
	if name != "larder-tls" || key != "ca.crt" {
		t.Errorf("the authority is %s of %s", key, name)
	}
	if text("port") != "serve" {
		t.Errorf("the port is %s", text("port"))
	}
	return r.ask(t, text("tlsConfig", "serverName"), "/metrics", token)
}

// ask requests a path from the port on which the pod serves its API, under the name of the pod's Service.
func (r *running) ask(t *testing.T, service, path, token string) (int, string) {
	t.Helper()
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM([]byte(r.secret(t, "larder-tls")["ca.crt"])) {
		t.Fatal("there is no authority")
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authority},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, r.ports["serve"])
		},
	}
	defer transport.CloseIdleConnections()
	return get(t, &http.Client{Transport: transport}, "https://"+service+path, token)
}

// scraper returns a token of the account that the PodMonitor names for Prometheus. A cluster's controller would write
// the token into a Secret, but the tests run no controller.
func (r *running) scraper(t *testing.T, release *release) string {
	t.Helper()
	monitor := release.find(t, "PodMonitor", strings.TrimSuffix(r.pod.Name, "-0"))
	endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
	name, _, err := unstructured.NestedString(endpoints[0].(map[string]any), "authorization", "credentials", "name")
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.w.client.CoreV1().Secrets(r.pod.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || s.Type != corev1.SecretTypeServiceAccountToken {
		t.Fatalf("%+v, %v", s, err)
	}
	return r.w.token(t, r.pod.Namespace, s.Annotations[corev1.ServiceAccountNameKey])
}

func (r *running) checkMetrics(t *testing.T, release *release, stranger string) {
	t.Helper()
	for token, want := range map[string]int{r.scraper(t, release): 200, stranger: 403, "": 401} {
		code, body := r.scrape(t, release, token)
		if code != want || (code == 200) != strings.Contains(body, "larder_objects{") {
			t.Errorf("%s: a scrape got %d, want %d: %.300s", r.pod.Name, code, want, body)
		}
	}
}

// checkRights checks that the account has used each of its permissions since mark, an offset in the audit log, and that
// the API server has refused no request of the account.
func (w *world) checkRights(t *testing.T, release *release, account string, mark int64) {
	t.Helper()
	requests, err := w.Requests("", mark)
	if err != nil {
		t.Fatal(err)
	}
	used := map[right]bool{}
	for _, r := range requests {
		if r.User != "system:serviceaccount:"+release.namespace+":"+account || r.Resource == "" {
			continue
		}
		if r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized {
			t.Errorf("%s asked in vain: %s", account, r)
		}
		group := ""
		if parts := strings.Split(r.Path, "/"); parts[1] == "apis" {
			group = parts[2]
		}
		used[right{verb: r.Verb, group: group, resource: r.Resource}] = true
		used[right{verb: r.Verb, group: group, resource: r.Resource, namespace: r.Namespace}] = true
	}
	rights := release.rights(t, account)
	if len(rights) == 0 {
		t.Errorf("%s may do nothing", account)
	}
	for _, may := range rights {
		// Two permissions are not checked: requests to a mirror do not reach the API server, and the audit log omits Leases.
		if may.resource == "" || may.resource == "leases" {
			continue
		}
		if name := may.name; name != "" {
			may.name = ""
		}
		if !used[may] {
			t.Errorf("%s may %+v, and did not need to: it used %v", account, may, used)
		}
	}
}

func (w *world) larderOutput(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(w.larder, args...)
	cmd.Env = append([]string{"HOME=" + t.TempDir()}, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("larder %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w *world) signingKey(t *testing.T, namespace string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sign.key")
	public := strings.Fields(w.larderOutput(t, nil, "keygen", "--signing", file))
	w.secret(t, namespace, "sign", map[string]string{"sign.key": readFile(t, file)})
	return public[len(public)-1]
}

// workload creates two pods: one on nodeName, one on another node.
func (w *world) workload(t *testing.T) {
	t.Helper()
	for _, node := range []string{nodeName, "node-2"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + node}, Spec: corev1.PodSpec{NodeName: node,
			Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		_, err := w.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
