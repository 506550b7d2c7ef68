package attributes

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEncoding checks that the encoding is JSON if the server, or the server that the stored objects came from, is
// newer than the Go types in this program, or if the server's version is unknown.
func TestEncoding(t *testing.T) {
	const protobuf = "application/vnd.kubernetes.protobuf,application/json"
	for _, tt := range []struct{ server, stored, wire, text string }{
		{"v1.37.0", "", "protobuf", "protobuf"},
		{"v1.37.9-gke.100", "protobuf", "protobuf", "protobuf"},
		{"v1.30.4+k3s1", "", "protobuf", "protobuf"},
		{"v1.38.0", "", "JSON 1.38", "JSON: the server, 1.38, is newer than the types in this program, 1.37"},
		{"v1.38.0-alpha.1", "protobuf", "JSON 1.38", "JSON: the server, 1.38, is newer"},
		{"v2.0.0", "JSON 1.38", "JSON 2.0", "JSON: the server, 2.0, is newer"},
		{"", "protobuf", "", "JSON: the server's version is not known"},
		{"nonsense", "", "", "JSON: the server's version is not known"},
		// These servers belong to a control plane that is being upgraded.
		{"v1.37.0", "JSON 1.38", "JSON 1.38", "JSON: the server, 1.38, is newer"},
		{"v1.38.0", "JSON 1.39", "JSON 1.39", "JSON: the server, 1.39, is newer"},
		{"", "JSON 1.38", "JSON 1.38", "JSON: the server, 1.38, is newer"},
		// This program was upgraded after the objects had been stored.
		{"v1.37.0", "JSON 1.37", "protobuf", "protobuf"},
	} {
		e := NewEncoding(func(context.Context) (string, error) { return tt.server, nil })
		wire := e.decide(tt.server, tt.stored)
		accept := "application/json"
		if tt.wire == "protobuf" {
			accept = protobuf
		}
		if wire != tt.wire || !strings.HasPrefix(e.String(), tt.text) || e.Accept() != accept {
			t.Errorf("server %q, stored %q: %q, %q, Accept %q", tt.server, tt.stored, wire, e, e.Accept())
		}
	}
}

// TestEncodingWithoutProtobuf checks a resource without protobuf, such as a custom resource.
func TestEncodingWithoutProtobuf(t *testing.T) {
	e := NewEncoding(nil)
	for _, server := range []string{"", "v1.37.0", "v1.38.0"} {
		if wire := e.decide(server, "JSON"); wire != "JSON" || e.String() != "JSON" || e.Accept() != "application/json" {
			t.Errorf("server %q: %q, %q, Accept %q", server, wire, e, e.Accept())
		}
	}
}

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
