package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/liggitt/tabwriter"
	"k8s.io/cli-runtime/pkg/printers"
)

// table prints rows in columns, as kubectl does; it holds all of them.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, header ...string) *table {
	t := &table{w: printers.GetNewTabWriter(w)}
	_ = t.row(header...) // nothing is written yet
	return t
}

// row adds a row.
func (t *table) row(cells ...string) error {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		shown[i] = oneLine(cell)
	}
	_, err := fmt.Fprintln(t.w, strings.Join(shown, "\t"))
	return err
}

// flush prints the table.
func (t *table) flush() error { return t.w.Flush() }
