package terminal_test

import (
	"strings"
	"testing"

	"github.com/larder-dev/larder/internal/cli/terminal"
)

// TestTableEndsNoLineInBlanks checks that column widths take all rows into account, and that a row whose last cells are
// empty has no trailing blanks.
func TestTableEndsNoLineInBlanks(t *testing.T) {
	var out strings.Builder
	table := terminal.NewTable(&out, "A", "LONGER", "NOTE")
	table.Row("1", "2", "")
	table.Row("a word", "", "here")
	table.Row("", "", "")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "A        LONGER   NOTE\n1        2\na word            here\n\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
