package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestTagModules checks that the adapter's tag follows the root's tag, on a commit whose go.mod requires that root
// version.
func TestTagModules(t *testing.T) {
	dir := checkout(t)
	must := func(args ...string) string {
		t.Helper()
		out, err := git(dir, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	before := must("rev-parse", "HEAD")
	var out bytes.Buffer
	if err := tagModules(dir, version, &out); err != nil {
		t.Fatal(err)
	}
	if got := must("rev-parse", version+"^{}"); got != before {
		t.Errorf("the root's tag is on %s, want %s", got, before)
	}
	if got := must("rev-parse", adapterPath+"/"+version+"^{}^"); got != before {
		t.Errorf("the adapter's tag comes after %s, want %s", got, before)
	}
	mod, err := modfile.Parse("go.mod", []byte(must("show", adapterPath+"/"+version+":"+adapterPath+"/go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	required := map[string]string{}
	for _, r := range mod.Require {
		required[r.Mod.Path] = r.Mod.Version
	}
	if required[rootModule] != version {
		t.Errorf("the adapter requires %v", required)
	}
	if !strings.Contains(out.String(), "git push origin HEAD v0.1.0 informer/controllerruntime/v0.1.0") {
		t.Errorf("said %q", out.String())
	}
	if err := tagModules(dir, version, &out); err == nil || !strings.Contains(err.Error(), "there is a tag already") {
		t.Errorf("a second time: %v", err)
	}
}

// TestTagModulesRefuses checks that a malformed version is refused, and that uncommitted changes are refused, because a
// tag would lack them.
func TestTagModulesRefuses(t *testing.T) {
	dir := checkout(t)
	if err := tagModules(dir, "0.1", os.Stderr); err == nil {
		t.Error("0.1 is no version")
	}
	if err := os.WriteFile(filepath.Join(dir, "more"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := tagModules(dir, version, os.Stderr); err == nil || !strings.Contains(err.Error(), "has changes") {
		t.Errorf("with changes: %v", err)
	}
	if tags, err := git(dir, "tag"); err != nil || tags != "" {
		t.Errorf("tags %q, %v", tags, err)
	}
}

func checkout(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, mod := range []string{"go.mod", filepath.Join(adapterPath, "go.mod")} {
		data, err := os.ReadFile(filepath.Join(root, mod))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, mod)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"config", "user.name", "nobody"}, {"config", "user.email", "nobody@example.com"},
		{"config", "tag.gpgSign", "false"}, {"config", "commit.gpgSign", "false"}, {"add", "."}, {"commit", "-qm", "all"},
	} {
		if _, err := git(dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
