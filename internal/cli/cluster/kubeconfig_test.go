package cluster

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// TestFallbackServer checks that a pod's service account and KUBERNETES_MASTER do not count as client-go's fallback
// server.
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

func TestNoWarnings(t *testing.T) {
	var errs bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&errs)
	t.Cleanup(func() {
		klog.SetOutput(os.Stderr)
		klog.LogToStderr(true)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "v1 ComponentStatus is deprecated in v1.19+"`)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	flags := NewFlags()
	flags.Overrides.ClusterInfo.Server = server.URL
	config, err := Config(flags)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mustServer(t, config).Discover(t.Context(), nil); err == nil {
		t.Error("it was answered")
	}
	klog.Flush()
	if errs.Len() > 0 {
		t.Error(errs.String())
	}
}
