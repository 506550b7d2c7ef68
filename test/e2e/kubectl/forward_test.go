package kubectl

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/test/e2e/controlplane"
	"github.com/larder-dev/larder/test/e2e/served"
)

// TestForward: with a token of the API server, kubectl reads what is mirrored through sync --serve --forward, and does
// all else there, too: it finds in discovery what is not mirrored. With larder's own token it finds the mirror only.
func TestForward(t *testing.T) {
	m, err := site.Mirror(t.Context(), "forward", []string{"configmaps"}, "--forward")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := m.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	config, err := m.Config("")
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.BearerToken = site.Server.Config(controlplane.Writer).BearerToken
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := served.WriteKubeconfig(path, config); err != nil {
		t.Fatal(err)
	}
	// A kubectl that has seen less of discovery keeps it for hours.
	fresh := func(args string) printed { return newTarget(t, path).run(t, args) }
	eventually(t, "the mirror has learned what the API server has", func() string {
		if got := fresh("get po -n default"); got.Code != 0 {
			return strings.Join(got.Err, "\n")
		}
		return ""
	})
	for _, step := range []struct{ args, want string }{
		{"create namespace forwarded", "namespace/forwarded created"},
		{"create serviceaccount robot -n forwarded", "serviceaccount/robot created"},
		{"get sa robot -n forwarded -o name", "serviceaccount/robot"},
		{"create configmap settings -n forwarded", "configmap/settings created"},
		{"label configmap settings -n forwarded a=b", "configmap/settings labeled"},
		{"delete sa robot -n forwarded", `serviceaccount "robot" deleted from forwarded namespace`},
		{"delete namespace forwarded --wait=false", `namespace "forwarded" deleted`},
	} {
		if got := fresh(step.args); got.Code != 0 || got.Out[0] != step.want {
			t.Errorf("kubectl %s: %q, %q, want %q", step.args, got.Out, got.Err, step.want)
		}
	}
	own := newTarget(t, m.Kubeconfig)
	if got := own.run(t, "get serviceaccounts"); got.Code == 0 {
		t.Errorf("larder's own token reads what is not mirrored: %q", got.Out)
	}
	names := own.run(t, "api-resources --verbs=list -o name").Out
	if got := strings.TrimSpace(strings.Join(names, " ")); got != "configmaps" {
		t.Errorf("larder's own token discovers %q", got)
	}
}
