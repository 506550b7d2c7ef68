package cli

import (
	"bytes"
	"io"
	"strings"

	"github.com/liggitt/tabwriter"
	"k8s.io/cli-runtime/pkg/printers"
)

// table prints rows in columns, as kubectl does, but with no blanks at the ends of lines; it holds all of them.
type table struct {
	to   io.Writer
	w    *tabwriter.Writer
	text bytes.Buffer
}

func newTable(w io.Writer, header ...string) *table {
	t := &table{to: w}
	t.w = printers.GetNewTabWriter(&t.text)
	t.row(header...)
	return t
}

// row adds a row.
func (t *table) row(cells ...string) {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		shown[i] = oneLine(cell)
	}
	_, _ = io.WriteString(t.w, strings.Join(shown, "\t")+"\n") // a buffer takes everything
}

// flush prints the table.
func (t *table) flush() error {
	_ = t.w.Flush() // likewise
	var out strings.Builder
	for line := range strings.Lines(t.text.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(t.to, out.String())
	return err
}
