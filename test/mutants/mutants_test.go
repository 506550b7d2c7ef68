package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// TestMutantsHaveNotRotted checks that each fault can still be inserted into the code, and that its test exists.
func TestMutantsHaveNotRotted(t *testing.T) {
	names, tests := map[string]bool{}, map[string]map[string]bool{}
	for _, m := range all() {
		if names[m.name] {
			t.Errorf("%s: there are two of this name", m.name)
		}
		names[m.name] = true
		if m.breaks == "" {
			t.Errorf("%s: it does not say what it breaks", m.name)
		}
		if _, err := m.apply(root); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		dir := m.testDir()
		if tests[dir] == nil {
			tests[dir] = testsIn(t, dir)
		}
		if !tests[dir][m.test] {
			t.Errorf("%s: there is no test %q in %s", m.name, m.test, dir)
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
	}
	return tests
}

// TestApply checks that a fault can be inserted only if its old text occurs exactly once and the result is valid Go.
func TestApply(t *testing.T) {
	dir := t.TempDir()
	text := "package p\n\nfunc f() int { return 1 }\n\nfunc g() int { return 2 }\n\nfunc h() int { return 2 }\n"
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"planted", "return 1", "return 3", ""},
		{"gone", "return 4", "return 3", "0 times"},
		{"twice", "return 2", "return 3", "2 times"},
		{"no change", "return 1", "return 1", "the same"},
		{"no Go", "return 1 }", "return", "not valid Go"},
	} {
		changed, err := mutant{file: "p.go", old: test.old, new: test.new}.apply(dir)
		switch {
		case test.want == "":
			if err != nil || !strings.Contains(string(changed), "func f() int { return 3 }") {
				t.Errorf("%s: %q, %v", test.name, changed, err)
			}
		case err == nil || !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: %v, want an error with %q", test.name, err, test.want)
		}
	}
}
