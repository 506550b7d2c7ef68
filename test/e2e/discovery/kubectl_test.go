package discovery

import (
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/test/e2e/served"
)

// TestKubectl checks that kubectl commands on discovery and schemas print the same for larder and the API server.
func TestKubectl(t *testing.T) {
	all := mirrored(t)
	s := httptest.NewServer(handler(t, all, learn(t, all)))
	defer s.Close()
	theirs, mine := kubeconfig(t, server.Config("kubectl")), kubeconfig(t, &rest.Config{Host: s.URL})
	for _, args := range []string{
		"api-versions",
		"api-resources --verbs=list,watch",
		"api-resources --verbs=list,watch --categories=all",
		"api-resources --verbs=list,watch --api-group=example.com",
		"version",
		"version -o yaml",
		"explain pods",
		"explain pod.spec.containers.resources",
		"explain deploy --recursive",
		"explain hpa.spec --api-version=autoscaling/v1",
		"explain gadgets.spec.size",
		"explain gd --api-version=example.com/v1",
		"explain nonsense",
	} {
		want, got := run(t, theirs, args), run(t, mine, args)
		if strings.HasPrefix(args, "api-versions") { // the server also prints groups without resources that can be mirrored
			want = slices.DeleteFunc(want, func(line string) bool {
				return strings.HasPrefix(line, "authentication.k8s.io/") || strings.HasPrefix(line, "authorization.k8s.io/")
			})
		}
		out := strings.Join(want, "\n")
		failed := strings.Contains(out, "error:") || strings.Contains(out, "doesn't have a resource type")
		if failed != (args == "explain nonsense") {
			t.Errorf("kubectl %s, of the server: %q", args, want)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("kubectl %s (- server, + ours):\n%s", args, d)
		}
	}
}

// kubeconfig writes a kubeconfig for a server, and returns the path. kubectl's cache is in the directory of the
// kubeconfig.
func kubeconfig(t *testing.T, c *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := served.WriteKubeconfig(path, c); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, config, args string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), kubectl, append(strings.Fields(args), "--kubeconfig", config, "--cache-dir",
		filepath.Join(filepath.Dir(config), "cache"))...)
	out, _ := cmd.CombinedOutput() // error messages are part of the compared output
	return strings.Split(string(out), "\n")
}
