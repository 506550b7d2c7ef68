// Package docs has the repository's documents, and tests of them.
package docs

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// named matches the tests and the scripts of the command that a row of promises.md names.
	named   = regexp.MustCompile(`\b(?:Test|Example|Fuzz|Benchmark)[A-Z_][A-Za-z0-9_]*\b|\b[a-z_]+\.txtar\b`)
	defined = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)[A-Za-z0-9_]+)\(`)
)

// TestPromises checks that each row of promises.md says whether the promise is kept, changed or dropped, and that the
// tests that the row names exist.
func TestPromises(t *testing.T) {
	tests := testsOfTheRepository(t)
	f, err := os.Open("promises.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, line := 0, 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line++
		cells := strings.Split(strings.Trim(lines.Text(), "| "), " | ")
		if len(cells) != 3 || cells[0] == "promise" {
			continue
		}
		rows++
		names := named.FindAllString(cells[2], -1)
		for _, name := range names {
			if !tests[name] {
				t.Errorf("promises.md:%d: there is no %s", line, name)
			}
		}
		switch cells[1] {
		case "kept":
			if len(names) == 0 {
				t.Errorf("promises.md:%d: kept, but no test shows it", line)
			}
		case "changed", "dropped":
			if cells[2] == "" {
				t.Errorf("promises.md:%d: %s, but not why", line, cells[1])
			}
		default:
			t.Errorf("promises.md:%d: %q is neither kept, changed nor dropped", line, cells[1])
		}
	}
	if rows < 250 {
		t.Errorf("only %d rows were found", rows)
	}
}

// testsOfTheRepository returns the names of the tests of all modules, and of the scripts.
func testsOfTheRepository(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, ".txtar"):
			tests[d.Name()] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range defined.FindAllStringSubmatch(string(text), -1) {
				tests[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
