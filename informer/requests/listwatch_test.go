package requests_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/requests"
)

// TestListWatchRequests checks the path and the selectors of requests, also with a client of another API group.
func TestListWatchRequests(t *testing.T) {
	var got *url.URL
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.URL
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"DeploymentList","apiVersion":"apps/v1"}`))
	}))
	defer api.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, UserAgent: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CoreV1().RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
	deployments := appsv1.SchemeGroupVersion.WithResource("deployments")
	selective := entry.Identity{
		GroupVersionResource: deployments, Namespace: "web", LabelSelector: "app=a", FieldSelector: "status.phase!=x",
		ShardSelector: "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')",
	}
	const shard = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
	for _, tt := range []struct {
		name  string
		id    entry.Identity
		o     metav1.ListOptions
		watch bool
		path  string
		query url.Values
	}{
		{"everything", entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
			metav1.ListOptions{Limit: 2}, false,
			"/api/v1/pods", url.Values{"limit": {"2"}}},
		{"selectors", selective, metav1.ListOptions{}, false,
			"/apis/apps/v1/namespaces/web/deployments",
			url.Values{"labelSelector": {"app=a"}, "fieldSelector": {"status.phase!=x"}, "shardSelector": {shard}}},
		{"a single object", selective, metav1.ListOptions{FieldSelector: "metadata.name=x"}, false,
			"/apis/apps/v1/namespaces/web/deployments",
			url.Values{"labelSelector": {"app=a"}, "fieldSelector": {"status.phase!=x,metadata.name=x"},
				"shardSelector": {shard}}},
		{"watch", entry.Identity{GroupVersionResource: deployments},
			metav1.ListOptions{ResourceVersion: "7", FieldSelector: "metadata.name=x"}, true,
			"/apis/apps/v1/deployments", url.Values{"watch": {"true"}, "resourceVersion": {"7"},
				"fieldSelector": {"metadata.name=x"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lw := requests.ListWatch(client.CoreV1().RESTClient(), tt.id)
			if tt.watch {
				w, err := lw.WatchWithContext(t.Context(), tt.o)
				if err != nil {
					t.Fatal(err)
				}
				w.Stop()
				for range w.ResultChan() {
				}
			} else if _, err := lw.ListWithContext(t.Context(), tt.o); err != nil {
				t.Fatal(err)
			}
			if got.Path != tt.path || got.Query().Encode() != tt.query.Encode() {
				t.Errorf("got %s, want %s?%s", got, tt.path, tt.query.Encode())
			}
		})
	}
}
