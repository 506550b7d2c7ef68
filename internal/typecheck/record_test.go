package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecordHidesNothing: what is new is checked, on the platforms that it was not checked for and where something else broke it, and
// as often as it is wrong.
func TestRecordHidesNothing(t *testing.T) {
	for name, test := range map[string]struct{ file, from, to, platform, want string }{
		"other platform": {platform: "linux/arm", want: "wrong.go:7:26: cannot use 1 << 40"},
		"a body":         {"wrong.go", "1 << 40", `"many"`, "linux/amd64", "wrong.go:7:26: cannot use"},
		"an import":      {"dep/dep.go", `"dep"`, "1", "linux/amd64", "wrong.go:10:29: invalid operation"},
		"a test":         {"dep/dep_test.go", "dep.Name", "dep.Nam", "linux/amd64", "dep_test.go:5:16: undefined: dep.Nam"},
		"the language":   {"go.mod", "go 1.26", "go 1.16", "linux/amd64", "requires go1.18"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache, dir := t.TempDir(), t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("testdata/wrong")); err != nil {
				t.Fatal(err)
			}
			replace(t, filepath.Join(dir, "dep/dep.go"), "const Name", "func id[T any](t T) T { return t }\n\n// Name is a word.\nconst Name")
			if err := run(t.Context(), cache, []string{"linux/amd64", dir}, t.Output()); err != nil {
				t.Fatal(err)
			}
			if test.file != "" {
				replace(t, filepath.Join(dir, test.file), test.from, test.to)
			}
			for range 2 {
				var out strings.Builder
				if err := run(t.Context(), cache, []string{test.platform, dir}, &out); err == nil || !strings.Contains(out.String(), test.want) {
					t.Errorf("error %v, output %q, want %q", err, out.String(), test.want)
				}
			}
		})
	}
}

// TestChangedMeanwhile: what is right now is not recorded under what was there when the identity was made.
func TestChangedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/wrong")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "wrong.go")
	replace(t, name, "1 << 40", `"many"`)
	program, err := ownIdentity()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newChecker(newSources(), platform{"linux", "amd64"}, program, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.addAll(t.Context(), []string{dir}); err != nil {
		t.Fatal(err)
	}
	replace(t, name, `"many"`, "1 << 40")
	if problems, _ := c.check(); len(problems) != 1 || !strings.Contains(problems[0], "wrong.go was changed while it was checked") {
		t.Errorf("problems: %q", problems)
	}
}

// TestRecordSpares: what was found right is not checked again in another directory, nor are the bodies of what something new imports.
func TestRecordSpares(t *testing.T) {
	cache, on := t.TempDir(), platform{"linux", "amd64"}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/wrong")); err != nil {
		t.Fatal(err)
	}
	started := func(dir string) (all []string) {
		t.Helper()
		program, err := ownIdentity()
		if err != nil {
			t.Fatal(err)
		}
		r, err := openRecord(cache)
		if err != nil {
			t.Fatal(err)
		}
		c, err := newChecker(newSources(), on, program, r.right)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.addAll(t.Context(), []string{dir}); err != nil {
			t.Fatal(err)
		}
		if problems, _ := c.check(); len(problems) > 0 {
			t.Fatalf("problems: %q", problems)
		}
		for _, p := range c.order {
			if p.started {
				all = append(all, p.ImportPath)
			}
		}
		return all
	}
	if first := started(dir); len(first) == 0 {
		t.Error("nothing was checked without a record")
	}
	if err := run(t.Context(), cache, []string{on.String(), "testdata/wrong"}, t.Output()); err != nil {
		t.Fatal(err)
	}
	if again := started(dir); len(again) > 0 {
		t.Errorf("checked again: %q", again)
	}
	replace(t, filepath.Join(dir, "wrong.go"), "1 << 40", "1 << 39")
	if again := strings.Join(started(dir), " "); !strings.HasPrefix(again, "example.com/wrong/dep example.com/wrong") {
		t.Errorf("checked again: %q", again)
	}
}

// replace changes a file.
func replace(t *testing.T, file, from, to string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), from) {
		t.Fatalf("%s has no %q (error %v)", file, from, err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}
