package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWhereAChangeGoes checks that the files, directories and functions exist that CONTRIBUTING.md names under "Where a
// change goes".
func TestWhereAChangeGoes(t *testing.T) {
	root, _ := pageOf(t)
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "## Where a change goes\n")
	if !found {
		t.Fatal("CONTRIBUTING.md does not say where a change goes")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	named, files := regexp.MustCompile("`([\\w./-]+)`(?: \\(([^)]*)\\))?"), 0
	for _, m := range named.FindAllStringSubmatch(table, -1) {
		if !strings.Contains(m[1], "/") {
			continue
		}
		code, err := os.ReadFile(filepath.Join(root, m[1]))
		if _, missing := os.Stat(filepath.Join(root, m[1])); missing != nil {
			t.Errorf("there is no %s any more; say where the change goes now", m[1])
		}
		files++
		for _, name := range quoted.FindAllStringSubmatch(m[2], -1) {
			if err == nil && !strings.Contains(string(code), name[1]) {
				t.Errorf("%s has no %s any more; say where the change goes now", m[1], name[1])
			}
		}
	}
	if files < 20 {
		t.Errorf("only %d files were found in the table", files)
	}
}
