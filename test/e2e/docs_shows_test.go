package e2e

import (
	"slices"
	"strings"
	"testing"
)

func TestParsePage(t *testing.T) {
	page := strings.Join([]string{
		"# Title", "```yaml", "$ not: run", "```",
		"```console", "$ first", "$ second <<x", "> more", "> x", "out 1", "…", "$ third", "running", "^C", "```",
		"```go", "$ not run", "```",
	}, "\n")
	steps, err := parsePage(page)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range steps {
		line := s.command
		if s.interrupted {
			line += " ^C"
		}
		got = append(got, line+" → "+strings.Join(s.output, "|"))
	}
	want := []string{"first → ", "second <<x\nmore\nx → out 1|…", "third ^C → running"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	printed := make([][]string, len(steps))
	printed[0], printed[2] = []string{"new"}, []string{"a", "b"}
	anew := update(page, steps, printed)
	if want := strings.ReplaceAll(strings.ReplaceAll(page, "$ first", "$ first\nnew"), "running", "a\nb"); anew != want {
		t.Errorf("updated:\n%s\nwant:\n%s", anew, want)
	}
	for _, wrong := range []string{"```console\nno command\n```", "```console\n$ a", "<!-- $ a -->"} {
		if _, err := parsePage(wrong); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

func TestShows(t *testing.T) {
	printed := []string{"NAME   AGE", "web-1   12s", "web-2   3m", "rv 812, 1.5 KiB"}
	for _, page := range [][]string{
		{}, {"…"}, {"NAME AGE", "…"}, {"…", "rv 9, 20.0 MiB"}, {"NAME AGE", "web-7 1h", "…", "rv 1, 3 B"},
		{"NAME  AGE", "web-1  1s", "web-2  2s", "rv 1, 1 kB"},
	} {
		if problem := shows(page, printed); problem != "" {
			t.Errorf("%q: %s", page, problem)
		}
	}
	for _, page := range [][]string{
		{"NAME AGE"}, {"…", "web-1 1s"}, {"NAME AGE", "rv 1, 3 B"}, {"…", "db-1 1s", "…"},
		{"NAME AGE", "web-1 1s", "web-2 2s", "rv 1, 1 kB", "more"},
	} {
		if shows(page, printed) == "" {
			t.Errorf("%q was found in what was printed", page)
		}
	}
}
