package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersionsAreReadFromTheModule(t *testing.T) {
	v, err := readVersions()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(v.kube, "v1.") || !strings.HasPrefix(v.etcd, "v3.") || len(v.key) != 8 {
		t.Fatalf("versions: %+v", v)
	}
}

func TestRequired(t *testing.T) {
	gomod := []byte("module x\n\nrequire example.com/one v1.0.0\n\nrequire (\n\texample.com/two v2.0.0 // indirect\n)\n")
	for module, want := range map[string]string{"example.com/one": "v1.0.0", "example.com/two": "v2.0.0"} {
		if got, err := required(gomod, module); err != nil || got != want {
			t.Errorf("required(%s) = %q, %v; want %q", module, got, err, want)
		}
	}
	if _, err := required(gomod, "example.com/three"); err == nil {
		t.Error("a module that is not required was found")
	}
}

// TestCacheFill checks that a failed build leaves no cache entry, and that an incomplete entry is built again.
func TestCacheFill(t *testing.T) {
	c := cache{root: t.TempDir(), name: "entry"}
	write := func(names ...string) func(string) error {
		return func(tmp string) error {
			for _, name := range names {
				if err := os.WriteFile(filepath.Join(tmp, name), nil, 0o755); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := c.fill(func(string) error { return errors.New("does not compile") }); err == nil || c.complete() {
		t.Fatalf("a failed build left an entry (error %v)", err)
	}
	if left, _ := os.ReadDir(c.root); len(left) != 0 {
		t.Fatalf("a failed build left %v", left)
	}
	if err := c.fill(write(programNames...)); err != nil || !c.complete() {
		t.Fatalf("fill: %v", err)
	}
	if err := os.Remove(filepath.Join(c.dir(), programNames[0])); err != nil {
		t.Fatal(err)
	}
	if c.complete() {
		t.Fatal("an entry without a program is complete")
	}
	if err := c.fill(write(programNames...)); err != nil || !c.complete() {
		t.Fatalf("second fill: %v", err)
	}
}
