package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/snapshot"
)

// TestHostileText checks that control characters in a downloaded snapshot are escaped on a terminal (CVE-2021-25743).
func TestHostileText(t *testing.T) {
	const evil = "\x1b]0;pwned\x07\u009b2J\r"
	dir := t.TempDir()
	file, other := filepath.Join(dir, "evil.larder"), filepath.Join(dir, "other.larder")
	hostile := func(c *snapshot.Collection) {
		c.Identity.Resource += evil
		c.Identity.LabelSelector = ""
		c.Resource = entry.ResourceInfo{Kind: "Widget" + evil, ShortNames: []string{"wd"}, Namespaced: true,
			Columns: []entry.Column{{Name: "Size" + evil, Type: "string", JSONPath: ".spec.of"}}}
		c.Complete, c.MustRelist = false, "left out"+evil
		c.Filtered, c.Redacted = []string{"only" + evil}, []string{"values" + evil}
	}
	w := widgetsOf(1, hostile, "a/"+evil, "a/x")
	writeSnapshot(t, file, snapshot.Header{Larder: "v" + evil, ServerVersion: evil, ClusterID: evil,
		LeftOut: []string{"secrets" + evil}}, w)
	w.keys = w.keys[1:]
	writeSnapshot(t, other, snapshot.Header{}, w)
	for name, args := range map[string][]string{
		"status": {"status", "--from", file}, "get": {"get", "wd", "-A", "--from", file},
		"get name":         {"get", "wd", "-A", "-o", "name", "--from", file},
		"no such resource": {"get", "nope" + evil, "--from", file}, "diff": {"diff", file, other},
		"diff name":            {"diff", file, other, "-o", "name"},
		"nothing in the other": {"diff", file, other, "wd", "-n", "b"},
		"export":               {"snapshot", "export", filepath.Join(dir, "out"), "--from", file, "--raw"},
		"no namespace":         {"get", "wd", "-n", "nope" + evil, "--from", file},
		"save":                 {"snapshot", "save", filepath.Join(dir, "copy.larder"), "--from", file},
		"check":                {"check", "--from", file},
	} {
		t.Run(name, func(t *testing.T) {
			_, out, errs := runs(t.Context(), args...)
			if out+errs == "" {
				t.Error("nothing was printed")
			}
			hidden := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
			if strings.ContainsFunc(out, hidden) || strings.ContainsFunc(errs, hidden) {
				t.Errorf("%q %q", out, errs)
			}
		})
	}
	if _, out, _ := runs(t.Context(), "status", "--from", file, "-o", "json"); !strings.Contains(out,
		`secrets\u001b]0;pwned\u0007`) {
		t.Errorf("JSON is not as it was: %q", out)
	}
}

// TestHostileTextOnATerminal checks that no command prints control characters of a file to a terminal, in any format.
// Templates print the text unchanged if the output is not a terminal.
func TestHostileTextOnATerminal(t *testing.T) {
	const evil = "\x1b]0;pwned\x07\u009b2J\u0090\x7f\r"
	dir := t.TempDir()
	file, other := filepath.Join(dir, "evil.larder"), filepath.Join(dir, "other.larder")
	hostile := func(c *snapshot.Collection) {
		c.Resource = entry.ResourceInfo{Kind: "Widget", ShortNames: []string{"wd"}, Namespaced: true,
			Columns: []entry.Column{{Name: "Size", Type: "string", JSONPath: ".metadata.name"}}}
	}
	// The text is longer than a write buffer, so that some writes end within a UTF-8 character.
	long := evil + strings.Repeat("ü"+evil, 1200)
	writeSnapshot(t, file, snapshot.Header{Larder: evil},
		widgetsOf(1, hostile, "a/"+long, "b/"+long, "c/"+long, "d/"+long))
	writeSnapshot(t, other, snapshot.Header{}, widgetsOf(1, hostile, "a/x"))
	hidden := func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t' }
	for _, args := range [][]string{
		{"get", "wd", "-A"}, {"get", "wd", "-A", "-o=wide"}, {"get", "wd", "-A", "-o=name"}, {"get", "wd", "-A", "-o=json"},
		{"get", "wd", "-A", "-o=yaml"}, {"get", "wd", "-A", "-o=kyaml"},
		{"get", "wd", "-A", "-o=jsonpath={.items[*].metadata.name}"}, {"get", "wd", "-A", "-o=jsonpath-as-json={.items[*]}"},
		{"get", "wd", "-A", "-o=go-template={{range .items}}{{.metadata.name}}{{end}}"},
		{"get", "wd", "-A", "-o=custom-columns=N:.metadata.name"},
		{"snapshot", "export", "-"}, {"status"}, {"status", "-o=json"}, {"check"}, {"check", "-o=json"},
	} {
		checkTerminal(t, append(args, "--from", file), hidden)
	}
	for _, format := range []string{"changes", "name", "json"} {
		checkTerminal(t, []string{"diff", other, file, "-o", format}, hidden)
	}
}

func checkTerminal(t *testing.T, args []string, hidden func(rune) bool) {
	t.Helper()
	var out, errs strings.Builder
	Run(t.Context(), args, command.IO{Out: &out, Err: &errs, OutIsTerminal: true})
	if out.Len() == 0 || strings.ContainsFunc(out.String(), hidden) || strings.ContainsFunc(errs.String(), hidden) {
		t.Errorf("%q: %.200q %.200q", args, out.String(), errs.String())
	}
	if !strings.Contains(strings.Join(args, " "), "metadata.name}") {
		return
	}
	_, plain, _ := runs(t.Context(), args...)
	if !strings.ContainsFunc(plain, hidden) || out.String() != terminal.Visible(plain) {
		t.Errorf("%q: to a file: %.200q", args, plain)
	}
}
