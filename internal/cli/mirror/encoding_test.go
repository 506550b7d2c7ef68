package mirror

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEncodingFor: protobuf where the server is not newer than the types that are compiled in, JSON otherwise.
func TestEncodingFor(t *testing.T) {
	for server, want := range map[string]string{
		"v1.37.0":         "protobuf",
		"v1.37.9-gke.100": "protobuf",
		"v1.30.4+k3s1":    "protobuf",
		"v1.38.0":         "JSON: the server, v1.38.0, is newer than the types that this larder knows, v1.37",
		"v2.0.0":          "JSON: the server, v2.0.0, is newer",
		"v1.38.0-alpha.1": "JSON: the server, v1.38.0-alpha.1, is newer",
		"":                "JSON: the server's version is not known",
		"nonsense":        "JSON: the server's version is not known",
	} {
		got := encodingFor(server)
		if !strings.HasPrefix(string(got), want) || got.protobuf() != (want == "protobuf") {
			t.Errorf("%q: %q", server, got)
		}
	}
}

// TestTypesVersion: the version of the types is that of the module.
func TestTypesVersion(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`k8s\.io/api v0\.(\d+)\.`).FindSubmatch(text)
	if m == nil || typesVersion != "1."+string(m[1]) {
		t.Errorf("typesVersion is %q; go.mod says %q", typesVersion, m)
	}
}
