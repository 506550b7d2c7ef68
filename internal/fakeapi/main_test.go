package fakeapi

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	podsGVR       = corev1.SchemeGroupVersion.WithResource("pods")
	configMapsGVR = corev1.SchemeGroupVersion.WithResource("configmaps")
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s := New(o)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// testContext returns a context that ends before the test's deadline, so that a hang is reported at its line.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func typed(t *testing.T, s *Server, contentType string) *kubernetes.Clientset {
	t.Helper()
	config := rest.CopyConfig(s.Config())
	config.ContentType, config.AcceptContentTypes = contentType, contentType
	// The client has its own HTTP client, whose connections end with the test.
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	must(t, err)
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pod(namespace, name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "image:1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func load(t *testing.T, s *Server, n int) {
	t.Helper()
	for i := range n {
		must(t, s.Load(podsGVR, pod("default", fmt.Sprintf("pod-%05d", i), map[string]string{"half": fmt.Sprint(i % 2)})))
	}
}

func newConfigMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data: map[string]string{"a": "b"}}
}

func get(t *testing.T, s *Server, path string, header http.Header) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodGet, s.Config().Host+path, nil)
	must(t, err)
	maps.Copy(request.Header, header)
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response, body
}

// waitWatches waits until at least n watches of pods are open. If n is 0, it waits until no watch is open.
func waitWatches(t *testing.T, s *Server, n int) {
	t.Helper()
	must(t, wait.PollUntilContextCancel(testContext(t), time.Millisecond, true, func(context.Context) (bool, error) {
		s.storage.mu.Lock()
		defer s.storage.mu.Unlock()
		open := len(s.tables[podsGVR].watches)
		return open >= n && (n > 0 || open == 0), nil
	}))
}
