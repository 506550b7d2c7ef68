package requirements_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// network has path prefixes of Go modules that connect to object storage and registries.
var network = []string{"github.com/minio/", "oras.land/", "github.com/opencontainers/"}

// TestLibrariesReachNoStorage checks that a program that imports Larder links the clients of S3 and of registries only
// if it imports Larder's package for them.
func TestLibrariesReachNoStorage(t *testing.T) {
	const module = "github.com/larder-dev/larder/"
	root := filepath.Join("..", "..")
	all := strings.Split(strings.TrimSpace(string(
		goCommand(t, root, "list", "-f", `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`, "./..."))), "\n")
	if len(all) < 50 {
		t.Fatalf("the module has the packages %v", all)
	}
	may := []string{"cmd/larder", "internal/cli", "internal/cli/schemes", "internal/cli/mirror", "internal/cli/snapshots",
		"snapshot/remote/s3", "snapshot/remote/oci"}
	for _, line := range all {
		deps := strings.Fields(line)
		name := strings.TrimPrefix(deps[0], module)
		reaches := false
		for _, dep := range deps[1:] {
			reaches = reaches || slices.ContainsFunc(network, func(n string) bool { return strings.HasPrefix(dep, n) })
		}
		if reaches && !slices.Contains(may, name) {
			t.Errorf("%s reaches object storage or a registry", name)
		}
		if !reaches && slices.Contains(may, name) {
			t.Errorf("%s does not reach any: take it out of the list", name)
		}
	}
}
