package serve_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestDiscoveryLearns: what the store learns of the API server after the first request is in discovery at once, not
// after a minute.
func TestDiscoveryLearns(t *testing.T) {
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
