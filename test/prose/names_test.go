package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNames checks that all declarations that comments name exist: links, Type.Member and package.Name.
func TestNames(t *testing.T) {
	gone, err := goneNames(repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(gone) > 0 {
		t.Errorf("comments name what the code does not declare:\n%s", strings.Join(gone, "\n"))
	}
}

func TestGoneNames(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go": `package a

import "example.com/other"

type T struct {
	*inner
	F, Fn int
}

type inner struct{ G int }

func (T) M() {}

func local(v other.Far) { v.Call() }

// T.M, T.F, T.G, [T], a.T, a.T.M, b.V, b.V.Any, other.Gone, Far.Gone, v.Gone and pkg.Type.field exist, and so do
// "T.Gone", README.md and RESOURCE.group.
//
// T.Gone1, [Gone2], a.Gone3, a.T.Gone4, b.Gone5, gone6.Name, V.Gone7 and Gone8.M do not.
`,
		"b/b.go": "package b\n\n// V.H exists.\ntype V struct{ H, Any int }\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := goneNames(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a/a.go:19: Gone8.M", "a/a.go:19: T.Gone1", "a/a.go:19: V.Gone7", "a/a.go:19: [Gone2]", "a/a.go:19: a.Gone3",
		"a/a.go:19: a.T.Gone4", "a/a.go:19: b.Gone5", "a/a.go:19: gone6.Name",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
