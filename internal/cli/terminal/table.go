package terminal

import (
	"io"
	"strings"
	"unicode/utf8"
)

const (
	// columnGap is the number of blanks between columns. leastColumn is the minimum width of a column, including its gap.
	// The values are kubectl's.
	columnGap   = 3
	leastColumn = 6
)

// Table prints rows in columns like kubectl, but without trailing blanks. It holds all rows until Flush.
type Table struct {
	to   io.Writer
	rows [][]string
	// colours maps the number of a column to the function that returns the colour of a cell.
	colours map[int]func(cell string) Colour
}

func NewTable(w io.Writer, header ...string) *Table {
	t := &Table{to: w}
	t.Row(header...)
	return t
}

func (t *Table) Row(cells ...string) {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		shown[i] = OneLine(cell)
	}
	t.rows = append(t.rows, shown)
}

// Paint sets the function that returns the colour of each cell in a column. The header has no colour.
func (t *Table) Paint(column int, f func(cell string) Colour) {
	if t.colours == nil {
		t.colours = map[int]func(string) Colour{}
	}
	t.colours[column] = f
}

func (t *Table) line(row []string, widths []int, painted bool) string {
	for len(row) > 0 && strings.TrimSpace(row[len(row)-1]) == "" {
		row = row[:len(row)-1]
	}
	var b strings.Builder
	for i, cell := range row {
		blanks := ""
		if i == len(row)-1 {
			cell = strings.TrimRight(cell, " ")
		} else {
			blanks = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		}
		if f := t.colours[i]; painted && f != nil {
			cell = f(cell).Paint(cell)
		}
		b.WriteString(cell + blanks)
	}
	return b.String() + "\n"
}

func (t *Table) Flush() error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, leastColumn)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell)+columnGap)
		}
	}
	for i, row := range t.rows {
		if _, err := io.WriteString(t.to, t.line(row, widths, i > 0)); err != nil {
			return err
		}
	}
	return nil
}
