package clients

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStern checks that stern finds pods through a mirror and follows their logs, which --forward requests from the API
// server. stern must also follow new pods, and continue after the mirror was killed and restarted.
func TestStern(t *testing.T) {
	if !soak {
		t.Skip("stern takes long to build: LARDER_SOAK=1")
	}
	path := program(t, "stern")
	client := writer(t)
	namespace(t, client, "logs")
	port := startKubelet(t)
	node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "logs"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	runningPod(t, client, "logs", "first", "logs", "10.3.0.1")
	m := mirror(t, "stern", []string{"pods"}, "--forward")
	mark, err := site.Server.Mark()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, path, nil, "--kubeconfig", kubeconfig(t, m, site.Server.Config("").BearerToken), "-n", "logs", ".",
		"--color", "never")
	follows := func(pod string) {
		t.Helper()
		eventually(t, "stern follows "+pod, func() error {
			if text := p.Log(); strings.Count(text, "line of logs/"+pod+"/c") < 3 {
				return fmt.Errorf("it has printed:\n%s", text)
			}
			return nil
		}, p)
	}
	follows("first")
	runningPod(t, client, "logs", "second", "logs", "10.3.0.2")
	follows("second")
	m.Kill()
	restart(t, m)
	runningPod(t, client, "logs", "third", "logs", "10.3.0.3")
	follows("third")
	requests, err := site.Server.Requests("", mark)
	if err != nil {
		t.Fatal(err)
	}
	logs := 0
	for _, r := range requests {
		switch {
		case strings.HasPrefix(r.UserAgent, "larder"):
		case strings.HasSuffix(r.Path, "/log"):
			logs++
		case r.Resource == "pods" && (r.Verb == "list" || r.Verb == "watch"):
			t.Errorf("what is mirrored was asked for upstream: %s by %s", r, r.UserAgent)
		}
	}
	if logs < 3 {
		t.Errorf("%d requests for logs upstream", logs)
	}
}

// startKubelet serves endless logs for every container, a few lines a second, and returns the port.
func startKubelet(t *testing.T) (port int) {
	t.Helper()
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		container, ok := strings.CutPrefix(r.URL.Path, "/containerLogs/")
		if !ok {
			http.NotFound(w, r)
			return
		}
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := fmt.Fprintf(w, "%s line of %s\n", time.Now().UTC().Format(time.RFC3339Nano), container); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
		}
	}))
	kubelet.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	kubelet.StartTLS()
	t.Cleanup(func() {
		kubelet.CloseClientConnections()
		kubelet.Close()
	})
	return kubelet.Listener.Addr().(*net.TCPAddr).Port
}
