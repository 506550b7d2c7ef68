// Package requirements_test compares the requirements in the go.mod files of Larder with the requirements of libraries
// that its users have anyway.
package requirements_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// references are the Go modules that every user of Larder requires anyway.
var references = []string{
	"k8s.io/client-go", "k8s.io/apimachinery", "k8s.io/api", "k8s.io/cli-runtime", "sigs.k8s.io/controller-runtime",
}

// higher has the modules that Larder must require in a newer version than the references do, and the reason.
var higher = map[string]string{
	"github.com/rogpeppe/go-internal": "filippo.io/age requires it",
	"go.yaml.in/yaml/v3":              "github.com/minio/minio-go/v7 requires it",
	"golang.org/x/net":                "golang.org/x/tools requires it",
	"golang.org/x/text":               "golang.org/x/crypto requires it, and filippo.io/age that",
	"golang.org/x/tools":              "filippo.io/age requires it",
}

// TestNoRequirementIsHigherThanItHasToBe limits the required versions. They apply to each program that uses Larder, and
// a version that is too new may break the program: client_golang 1.25.0 does not compile with code for the 1.24.0 of
// controller-runtime (issue 16, A18).
func TestNoRequirementIsHigherThanItHasToBe(t *testing.T) {
	root, adapter := filepath.Join("..", ".."), filepath.Join("..", "..", "informer", "controllerruntime")
	most := map[string]string{}
	for _, module := range references {
		dir := adapter
		if module == "k8s.io/cli-runtime" { // the controller-runtime adapter does not require this module
			dir = root
		}
		mod := strings.TrimSpace(string(goCommand(t, dir, "list", "-m", "-f", "{{.GoMod}}", module)))
		for _, r := range requirements(t, dir, mod) {
			if most[r.Path] == "" || newer(t, r.Version, most[r.Path]) {
				most[r.Path] = r.Version
			}
		}
	}
	if most["github.com/prometheus/client_golang"] == "" || most["golang.org/x/net"] == "" {
		t.Fatalf("the references require %v", most)
	}
	needed := map[string]bool{}
	for _, dir := range []string{root, adapter} {
		for _, r := range requirements(t, dir, "go.mod") {
			limit := most[r.Path]
			if limit == "" || !newer(t, r.Version, limit) {
				continue
			}
			needed[r.Path] = true
			if _, ok := higher[r.Path]; !ok {
				t.Errorf("%s requires %s %s, and %s would do", filepath.Join(dir, "go.mod"), r.Path, r.Version, limit)
			}
		}
	}
	for path, why := range higher {
		if !needed[path] {
			t.Errorf("%s is not higher than it has to be any more (%s): take it out of the list", path, why)
		}
	}
}

type requirement struct{ Path, Version string }

func requirements(t *testing.T, dir, mod string) []requirement {
	t.Helper()
	var parsed struct{ Require []requirement }
	if err := json.Unmarshal(goCommand(t, dir, "mod", "edit", "-json", mod), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed.Require
}

func goCommand(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			stderr = exit.Stderr
		}
		t.Fatal(fmt.Errorf("go %s in %s: %w: %s", strings.Join(args, " "), dir, err, stderr))
	}
	return out
}

func newer(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := version.ParseSemantic(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := version.ParseSemantic(b)
	if err != nil {
		t.Fatal(err)
	}
	return y.LessThan(x)
}
