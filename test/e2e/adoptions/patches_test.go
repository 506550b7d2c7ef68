package adoptions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const most = 25

func TestPatches(t *testing.T) {
	dir := filepath.Join(repository(t), "examples", "adoptions")
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	patches, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil || len(patches) != len(adoptions) {
		t.Fatalf("%d patches, and %d programs: %v", len(patches), len(adoptions), err)
	}
	for _, a := range adoptions {
		t.Run(a.name, func(t *testing.T) {
			text, err := os.ReadFile(a.patch(t))
			if err != nil {
				t.Fatal(err)
			}
			lines := changed(string(text))
			if lines == 0 || lines > most {
				t.Errorf("the patch changes %d lines, and may change %d", lines, most)
			}
			if row := a.row(lines); !strings.Contains(string(readme), row) {
				t.Errorf("examples/adoptions/README.md does not have the row\n%s", row)
			}
			a.apply(t, a.source(t))
		})
	}
}

func changed(diff string) (n int) {
	for line := range strings.Lines(diff) {
		header := strings.HasPrefix(line, "+++ ") || strings.HasPrefix(line, "--- ")
		if !header && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")) {
			n++
		}
	}
	return n
}
