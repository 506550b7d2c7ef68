package cli

import (
	"testing"

	"k8s.io/client-go/rest"
)

// What a pod is told by its service account, and what KUBERNETES_MASTER says, are servers that somebody meant.
func TestFallbackServer(t *testing.T) {
	t.Setenv("KUBERNETES_MASTER", "")
	for host, want := range map[string]bool{"http://localhost:8080": true, "https://10.96.0.1:443": false} {
		if got := isFallback(&rest.Config{Host: host}); got != want {
			t.Errorf("%s: got %v", host, got)
		}
	}
	t.Setenv("KUBERNETES_MASTER", "http://localhost:8080")
	if isFallback(&rest.Config{Host: "http://localhost:8080"}) {
		t.Error("the server of KUBERNETES_MASTER is taken for nobody's")
	}
}
