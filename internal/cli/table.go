package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

const (
	// tableSample is how many rows decide the widths of a table's columns. The rest
	// streams: a longer cell pushes its row to the right.
	tableSample = 1000
	columnGap   = 3
)

// table prints rows in columns, as kubectl does, with memory for tableSample rows.
type table struct {
	w      io.Writer
	rows   [][]string
	widths []int
	// printed is true once the widths are fixed.
	printed bool
}

func newTable(w io.Writer, header ...string) *table {
	return &table{w: w, rows: [][]string{header}}
}

// row adds a row.
func (t *table) row(cells ...string) error {
	if t.printed {
		return t.print(cells)
	}
	t.rows = append(t.rows, cells)
	if len(t.rows) > tableSample {
		return t.flush()
	}
	return nil
}

// flush prints what is held back.
func (t *table) flush() error {
	for _, cells := range t.rows {
		for i, cell := range cells {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	t.printed = true
	for _, cells := range t.rows {
		if err := t.print(cells); err != nil {
			return err
		}
	}
	t.rows = nil
	return nil
}

func (t *table) print(cells []string) error {
	var b strings.Builder
	for i, cell := range cells {
		b.WriteString(cell)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", max(0, t.widths[i]-utf8.RuneCountInString(cell))+columnGap))
		}
	}
	b.WriteByte('\n')
	_, err := io.WriteString(t.w, b.String())
	return err
}
