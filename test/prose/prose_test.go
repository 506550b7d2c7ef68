package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

func TestProse(t *testing.T) {
	parts, err := count(repository)
	if err != nil {
		t.Fatal(err)
	}
	if faults := overBounds(parts); len(faults) > 0 {
		t.Errorf("go run ./test/prose lists all phrases; CONTRIBUTING.md says how to write:\n%s", strings.Join(faults, "\n"))
	}
}

// overBounds returns a line for each broken bound, and then ten lines from the worst parts.
func overBounds(parts []*part) []string {
	var faults []string
	if whole := sum(parts); whole.rate() > maxRate {
		faults = append(faults, fmt.Sprintf("all: %.1f in 1,000 words, at most %.1f", whole.rate(), maxRate))
	}
	var over []*part
	for _, p := range parts {
		switch {
		case p.words > smallPart && p.rate() > maxPartRate:
			faults = append(faults, fmt.Sprintf("%s: %.1f in 1,000 words, at most %.1f", p.name, p.rate(), maxPartRate))
		case p.words <= smallPart && len(p.hits) > maxHits:
			faults = append(faults, fmt.Sprintf("%s: %d in %d words, at most %d", p.name, len(p.hits), p.words, maxHits))
		default:
			continue
		}
		over = append(over, p)
	}
	slices.SortStableFunc(over, func(a, b *part) int { return cmp.Compare(b.rate(), a.rate()) })
	hits := sum(over).hits
	if len(over) == 0 && len(faults) > 0 {
		hits = sum(parts).hits
	}
	for _, h := range hits[:min(len(hits), 10)] {
		faults = append(faults, h.String())
	}
	return faults
}

func TestOverBounds(t *testing.T) {
	hits := func(n int) []hit { return make([]hit, n) }
	for _, test := range []struct {
		name  string
		parts []*part
		lines int
	}{
		{"a small part with one hit", []*part{{words: 1000, hits: hits(1)}}, 0},
		{"a small part with two hits", []*part{{words: 1000, hits: hits(2)}, {words: 9000}}, 1 + 2},
		{"a large part at the limit", []*part{{words: 2000, hits: hits(3)}, {words: 9000}}, 0},
		{"a large part above the limit", []*part{{words: 2000, hits: hits(4)}, {words: 9000}}, 1 + 4},
		{"all above the limit", []*part{{words: 10000, hits: hits(11)}}, 1 + 10},
	} {
		if got := overBounds(test.parts); len(got) != test.lines {
			t.Errorf("%s: %d lines, want %d: %q", test.name, len(got), test.lines, got)
		}
	}
}

// TestCount checks which text of a file is counted. A phrase over two lines is counted; code, quotations, tables,
// directives and the expected output of an example are not.
func TestCount(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go": "// Package a holds what\n// is pending.\n//\n//\twhat is code\n//\n" +
			"//nolint:all // what is quiet\npackage a\n\n" +
			"func f() { // whoever asks\n\t_ = \"what is quoted\" // Output: \"what is\" `what is`\n}\n",
		"a/a_test.go":        "package a\n\nfunc ExampleF() {\n\t// such as this\n\n\t// Output:\n\t// what is printed\n}\n",
		"b.md":               "# What is this?\n\n| what is |\n\n```\nwhat is code\n```\n\nIt is told that it ends, else it\ngoes on. Else it stays.\n",
		"CHANGELOG.md":       "what is old\n",
		"testdata/c.go":      "// what is there\npackage c\n",
		"store/history/d.go": "// what is there\npackage d\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := count(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range parts {
		for _, h := range p.hits {
			got = append(got, fmt.Sprintf("%s:%d %s", h.file, h.line, h.phrase))
		}
	}
	want := []string{
		"a/a.go:1 what is", "a/a.go:9 whoever", "b.md:1 What is", "b.md:9 is told", "b.md:9 , else", "b.md:10 . Else",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
