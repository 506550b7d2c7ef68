package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

var roles = []string{"pod", "endpointslice", "service", "node"}

// TestPrometheus checks that Prometheus discovers the same targets through a mirror as from the API server, even after
// the mirror was killed and restarted during changes.
func TestPrometheus(t *testing.T) {
	if !soak {
		t.Skip("Prometheus takes long to build: LARDER_SOAK=1")
	}
	path := program(t, "prometheus")
	client := writer(t)
	namespace(t, client, "metrics")
	target(t, client, "one", "10.2.0.1")
	target(t, client, "two", "10.2.0.2")
	m := mirror(t, "prometheus", []string{"pods", "services", "endpointslices", "nodes"})
	dir := t.TempDir()
	var config strings.Builder
	config.WriteString("scrape_configs:\n")
	for kubeconfig, server := range map[string]string{site.Kubeconfig: "upstream", m.Kubeconfig: "mirror"} {
		for _, role := range roles {
			fmt.Fprintf(&config, "- job_name: %s-%s\n  kubernetes_sd_configs: [{role: %s, kubeconfig_file: %q}]\n"+
				"  relabel_configs: [{action: drop}]\n", server, role, role, kubeconfig)
		}
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := controlplane.Listen()
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p := start(t, path, nil, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", address)
	same := func(when string, pods ...string) {
		t.Helper()
		eventually(t, "targets are the same "+when, func() error {
			found, err := discovered(t, address)
			if err != nil {
				return err
			}
			for _, role := range roles {
				want, got := found["upstream-"+role], found["mirror-"+role]
				if len(want) == 0 && role != "node" {
					return fmt.Errorf("no targets of role %s", role)
				}
				less := cmpopts.SortSlices(func(a, b string) bool { return a < b })
				if diff := cmp.Diff(want, got, less); diff != "" {
					return fmt.Errorf("role %s (- API server, + mirror):\n%s", role, diff)
				}
			}
			all := strings.Join(found["upstream-pod"], "\n")
			for _, pod := range pods {
				if !strings.Contains(all, `"__meta_kubernetes_pod_name":"`+pod+`"`) {
					return fmt.Errorf("no target of pod %s", pod)
				}
			}
			return nil
		}, p)
	}
	same("at first", "one", "two")
	target(t, client, "three", "10.2.0.3")
	same("after a change", "three")
	m.Kill()
	target(t, client, "four", "10.2.0.4")
	none := int64(0)
	gone := metav1.DeleteOptions{GracePeriodSeconds: &none}
	if err := client.CoreV1().Pods("metrics").Delete(t.Context(), "one", gone); err != nil {
		t.Fatal(err)
	}
	restart(t, m)
	same("after a restart", "two", "three", "four")
}

func target(t *testing.T, client kubernetes.Interface, name, address string) {
	t.Helper()
	pod := runningPod(t, client, "metrics", name, "node-1", address)
	port := corev1.ServicePort{Name: "http", Port: 80}
	_, err := client.CoreV1().Services("metrics").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{port}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	endpoint(t, client, "metrics", name, pod.Name, address)
}

func runningPod(t *testing.T, client kubernetes.Interface, namespace, name, node, address string) *corev1.Pod {
	t.Helper()
	pod, err := client.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "c", Image: "i", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	started := true
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", Image: "i", ImageID: "x", ContainerID: "containerd://" + name, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}},
	}
	if pod, err = client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return pod
}

func discovered(t *testing.T, address string) (map[string][]string, error) {
	t.Helper()
	url := "http://" + address + "/api/v1/targets?state=dropped"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer w.Body.Close()
	var answer struct {
		Data struct {
			DroppedTargets []struct {
				DiscoveredLabels map[string]string `json:"discoveredLabels"`
			} `json:"droppedTargets"`
		} `json:"data"`
	}
	if err := json.NewDecoder(w.Body).Decode(&answer); err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, target := range answer.Data.DroppedTargets {
		job := target.DiscoveredLabels["job"]
		delete(target.DiscoveredLabels, "job")
		labels, err := json.Marshal(target.DiscoveredLabels)
		if err != nil {
			return nil, err
		}
		all[job] = append(all[job], string(labels))
	}
	return all, nil
}
