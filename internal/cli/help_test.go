package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/clitest"
)

func TestHelpFitsTheTerminal(t *testing.T) {
	help := func(width int, path []string) string {
		var out bytes.Buffer
		s := clitest.IO(&out)
		s.TerminalSize = func() (int, int) { return width, 24 }
		if code := Run(t.Context(), append(path, "--help"), s); code != 0 {
			t.Fatalf("%q: exit code %d", path, code)
		}
		return out.String()
	}
	var check func(cmd *cobra.Command, path []string)
	check = func(cmd *cobra.Command, path []string) {
		whole := help(0, path)
		for _, width := range []int{60, 80, 120} {
			fitted := help(width, path)
			for line := range strings.Lines(fitted) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
					t.Errorf("%q at %d columns has a line of %d: %s", path, width, n, line)
				}
			}
			if got, want := strings.Fields(fitted), strings.Fields(whole); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q at %d columns has other words:\n%s", path, width, fitted)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub, append(path[:len(path):len(path)], sub.Name()))
		}
	}
	check(newRoot(clitest.IO(&bytes.Buffer{})), nil)
}

func TestFitted(t *testing.T) {
	text := "A paragraph that is\nbroken where nobody sees it, and goes on.\n\n" +
		"  WORD   what it means, in more words than there is room for\n  larder get pods\n\nFlags:\n      " +
		"--a-long-flag-and-its-VALUE   what it does\n"
	want := "A paragraph that is broken where nobody\nsees it, and goes on.\n\n" +
		"  WORD   what it means, in more words\n         than there is room for\n  larder get pods\n\nFlags:\n" +
		"      --a-long-flag-and-its-VALUE   what\n          it does\n"
	if got := fitted(text, 40); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
