package contract

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// document is the Markdown page with the table of differences. The table follows the line heading.
var document = filepath.Join("..", "..", "..", "docs", "serve.md")

const heading = "## What differs from an API server"

var cell = regexp.MustCompile(`\s*\|\s*`)

func documented(t *testing.T) (rows []string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", document, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, line := range strings.Split(section, "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			rows = append(rows, cell.ReplaceAllString(line, "|"))
		}
	}
	if len(rows) < 2 {
		t.Fatalf("%s has no table below %q", document, heading)
	}
	return rows[2:]
}

func TestDocument(t *testing.T) {
	var want []string
	for _, r := range rules {
		want = append(want, fmt.Sprintf("|%s|%s|%s|", r.Name, r.What, r.Why))
	}
	got := documented(t)
	for _, row := range want {
		if !slices.Contains(got, row) {
			t.Errorf("%s lacks this row:\n%s", document, strings.ReplaceAll(row, "|", " | "))
		}
	}
	for _, row := range got {
		if !slices.Contains(want, row) {
			t.Errorf("%s has a row that is no rule of this test:\n%s", document, strings.ReplaceAll(row, "|", " | "))
		}
	}
	if len(want) == len(got) && !slices.Equal(want, got) {
		t.Errorf("the rows of %s have another order than the rules", document)
	}
}
