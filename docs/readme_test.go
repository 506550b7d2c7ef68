package docs

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeProgram checks that the program in the README is in ExampleNewSharedInformerFactory_run, line by line.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../informer/factory/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(readme), "```go\n")
	program, _, found := strings.Cut(program, "```\n")
	if !found {
		t.Fatal("there is no program in the README")
	}
	program = strings.Replace(program, `"larder.db"`, "path", 1)
	if !strings.Contains(unindented(string(example)), unindented(program)) {
		t.Errorf("no example has\n%s", program)
	}
}

// unindented returns a text without the tabs at the beginning of its lines.
func unindented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimLeft(line, "\t"))
	}
	return out.String()
}
