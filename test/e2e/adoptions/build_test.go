package adoptions

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// unreleased is the version that a go.mod requires of a module that it replaces by a directory.
const unreleased = "v0.0.0-00010101000000-000000000000"

func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func (a adoption) patch(t *testing.T) string {
	return filepath.Join(repository(t), "examples", "adoptions", a.name+".patch")
}

func (a adoption) source(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", a.module+"@"+a.version)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	var found struct{ Dir, Sum, Error string }
	if unmarshalled := json.Unmarshal(out, &found); err != nil || unmarshalled != nil || found.Error != "" {
		t.Fatalf("downloading %s: %v, %v, %s", a.module, err, unmarshalled, found.Error)
	}
	if found.Sum != a.sum {
		t.Fatalf("%s %s has the sum %s, and %s is expected", a.module, a.version, found.Sum, a.sum)
	}
	dir := filepath.Join(t.TempDir(), a.name)
	if err := os.CopyFS(dir, os.DirFS(found.Dir)); err != nil { // CopyFS makes the files writable
		t.Fatal(err)
	}
	return dir
}

func (a adoption) apply(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "apply", "--verbose", a.patch(t))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // no repository above dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "cleanly") {
		t.Fatalf("%s does not apply to %s %s: %v\n%s", a.patch(t), a.module, a.version, err, out)
	}
}

// copies returns two copies of the program's source: unchanged and patched. Both copies have the go.mod of the patched
// copy, and so Larder's version of client-go.
func (a adoption) copies(t *testing.T) (stock, ours string) {
	t.Helper()
	stock, ours = a.source(t), a.source(t)
	a.apply(t, ours)
	a.require(t, ours)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(ours, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(stock, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return stock, ours
}

// require adds this clone of Larder and its requirements to a copy's go.mod, as docs/adopt.md says.
func (a adoption) require(t *testing.T, dir string) {
	t.Helper()
	larder, root := "github.com/larder-dev/larder", repository(t)
	edit := []string{"mod", "edit", "-replace=" + larder + "=" + root, "-require=" + larder + "@" + unreleased}
	if a.adapter {
		adapter := "/informer/controllerruntime"
		edit = append(edit, "-replace="+larder+adapter+"="+root+adapter, "-require="+larder+adapter+"@"+unreleased)
	}
	for _, module := range a.requires {
		edit = append(edit, "-require="+module)
	}
	a.goTool(t, dir, edit...)
	a.goTool(t, dir, append([]string{"list", "-deps", "-test", a.main}, a.tests...)...)
	if got, want := a.clientGo(t, dir), a.clientGo(t, root); got != want {
		t.Fatalf("%s has client-go %s, and Larder has %s", a.name, got, want)
	}
}

func (a adoption) clientGo(t *testing.T, dir string) string {
	t.Helper()
	return string(a.goTool(t, dir, "list", "-m", "k8s.io/client-go"))
}

// build builds the program and returns the path. The file name becomes the program's user agent.
func (a adoption) build(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), a.name)
	a.goTool(t, dir, "build", "-o", path, a.main)
	return path
}

func (a adoption) goTool(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd, stderr := goCommand(t.Context(), dir, args...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), a.module, err, stderr)
	}
	return out
}

// goCommand returns a go command for a copy of a program's source. The command may update go.mod and go.sum.
func goCommand(ctx context.Context, dir string, args ...string) (*exec.Cmd, fmt.Stringer) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false "+os.Getenv("GOFLAGS"))
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	return cmd, stderr
}
