package terminal

import (
	"io"
	"strings"
	"unicode/utf8"
)

const (
	// columnGap is between two columns, and leastColumn how wide one is with it: as in kubectl's tables.
	columnGap   = 3
	leastColumn = 6
)

// Table prints rows in columns, as kubectl does, but with no blanks at the ends of lines; it holds all of them.
type Table struct {
	to   io.Writer
	rows [][]string
	// colours are what columns are painted in, by their number.
	colours map[int]func(cell string) Colour
}

// NewTable returns a table with these headers; Flush prints it to w.
func NewTable(w io.Writer, header ...string) *Table {
	t := &Table{to: w}
	t.Row(header...)
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	shown := make([]string, len(cells))
	for i, cell := range cells {
		shown[i] = OneLine(cell)
	}
	t.rows = append(t.rows, shown)
}

// Paint paints the cells of a column below its header.
func (t *Table) Paint(column int, f func(cell string) Colour) {
	if t.colours == nil {
		t.colours = map[int]func(string) Colour{}
	}
	t.colours[column] = f
}

// Lines lays the table out. width is that of the widest line, without what paints it.
func (t *Table) Lines() (lines []string, width int) {
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
		line, n := t.line(row, widths, i > 0)
		lines, width = append(lines, line), max(width, n)
	}
	return lines, width
}

func (t *Table) line(row []string, widths []int, painted bool) (line string, width int) {
	last := len(row)
	for last > 0 && strings.TrimSpace(row[last-1]) == "" {
		last--
	}
	var b strings.Builder
	for i, cell := range row[:last] {
		if i == last-1 {
			cell = strings.TrimRight(cell, " ")
		}
		n := utf8.RuneCountInString(cell)
		if f := t.colours[i]; painted && f != nil {
			cell = f(cell).Paint(cell)
		}
		b.WriteString(cell)
		width += n
		if i < last-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-n))
			width += widths[i] - n
		}
	}
	return b.String(), width
}

// Flush prints the table.
func (t *Table) Flush() error {
	lines, _ := t.Lines()
	_, err := io.WriteString(t.to, strings.Join(lines, "\n")+"\n")
	return err
}
