package serve_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/larder-dev/larder/internal/facts"
)

// TestDiscoveryOfNewDocuments checks that discovery changes as soon as the store has new discovery documents of the API
// server, not only after a minute.
func TestDiscoveryOfNewDocuments(t *testing.T) {
	w := newWorld(t, nil)
	version := func() string {
		resp, err := http.Get(w.server.URL + "/version")
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return string(text)
	}
	if strings.Contains(version(), "v1.99.0") {
		t.Fatal("the version is known")
	}
	must(t, w.store.PutDocument(t.Context(), "server-version",
		[]byte(`{"major":"1","minor":"99","gitVersion":"v1.99.0"}`)))
	eventually(t, func() bool { return strings.Contains(version(), "v1.99.0") }, version)
}

// TestRetiredVersion checks that a version that the API server has replaced is readable by path (issue 38, D.10).
func TestRetiredVersion(t *testing.T) {
	w := newWorld(t, nil)
	answer := func(path string) (int, string) {
		resp, err := http.Get(w.server.URL + path)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(text)
	}
	if _, text := answer("/api"); !strings.Contains(text, `"v1"`) {
		t.Fatal(text)
	}
	v2 := metav1.GroupVersionForDiscovery{GroupVersion: "v2", Version: "v2"}
	must(t, facts.DiscoveryOf([]*metav1.APIGroup{{Versions: []metav1.GroupVersionForDiscovery{v2}, PreferredVersion: v2}},
		[]*metav1.APIResourceList{{GroupVersion: "v2", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}}}},
	).Put(t.Context(), w.store))
	listed := func() string { _, text := answer("/api"); return text }
	eventually(t, func() bool { return !strings.Contains(listed(), `"v1"`) }, listed)
	if code, text := answer("/api/v1/pods"); code != http.StatusOK {
		t.Errorf("%d: %s", code, text)
	}
}
