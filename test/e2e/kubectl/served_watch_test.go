package kubectl

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// watches maps a kubectl watch command to a text that the command prints once for each of the six events of an object.
var watches = map[string]string{
	"get configmaps -n shop -w -l watched=yes --show-labels":                                         "\nwatched ",
	"get configmaps -n shop -w -o json --output-watch-events --field-selector metadata.name=watched": `{"type":"`,
	"get gadgets -n shop -w -o wide":                                                                 "\nwatched ",
	"get gadget watched -n shop -w -o name":                                                          "gadget.",
}

func compareWatches(t *testing.T, upstream, mine target) {
	c := newCreator(t)
	objects := []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "watched", "namespace": "shop", "labels": map[string]any{"watched": "yes"}}}},
		{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Gadget",
			"metadata": map[string]any{"name": "watched", "namespace": "shop"}, "spec": map[string]any{"count": int64(1)}}},
	}
	for _, u := range objects {
		c.create(u)
	}
	eventually(t, "the mirror has what is watched", func() string {
		return strings.Join(mine.run(t, "get configmap/watched gadget/watched -n shop -o name").Err, "\n")
	})
	theirs, ours := map[string]func() string{}, map[string]func() string{}
	for args := range watches {
		theirs[args], ours[args] = upstream.watch(t, args), mine.watch(t, args)
	}
	for args, event := range watches {
		eventually(t, "kubectl "+args+" has begun", func() string {
			if !strings.Contains(theirs[args](), event) || !strings.Contains(ours[args](), event) {
				return "it has not: " + theirs[args]() + ours[args]()
			}
			return ""
		})
	}
	for _, labels := range []string{`{"step":"1"}`, `{"watched":"no"}`, `{"watched":"yes"}`, `{"step":"2"}`} {
		for _, u := range objects {
			_, err := c.resource(u).Patch(t.Context(), "watched", types.MergePatchType,
				[]byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, u := range objects {
		if err := c.resource(u).Delete(t.Context(), "watched", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for args, event := range watches {
		eventually(t, "kubectl "+args+" has printed six events (- API server, + larder sync --serve)", func() string {
			want, got := theirs[args](), ours[args]()
			if strings.Count(want, event) < 6 {
				return "the API server's has not: " + want
			}
			return cmp.Diff(want, got)
		})
	}
}

var age = regexp.MustCompile(`\b(\d+m(\d+s)?|\d+s)\b *`)

// watch runs a kubectl watch until the test ends. The returned function returns the output so far, without ages.
func (to target) watch(t *testing.T, args string) func() string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(kubectl, append(strings.Fields(args), "--kubeconfig", to.kubeconfig, "--cache-dir",
		to.cacheDir)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
	})
	return func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return age.ReplaceAllString(string(text), "<age> ")
	}
}
