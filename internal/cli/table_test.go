package cli

import (
	"strings"
	"testing"
)

// The columns are those of all rows, and no line ends in blanks, though its last cells are empty.
func TestTableEndsNoLineInBlanks(t *testing.T) {
	var out strings.Builder
	table := newTable(&out, "A", "LONGER", "NOTE")
	table.row("1", "2", "")
	table.row("a word", "", "here")
	table.row("", "", "")
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	want := "A        LONGER   NOTE\n1        2\na word            here\n\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
