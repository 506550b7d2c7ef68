package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns text from a file or a server with its control characters escaped, because they could move the cursor
// or reprogram the terminal (CVE-2021-25743). ESC and CR are written as kubectl does. Newlines and tabs stay.
func Visible(text string) string { return escaped(text, "\n\t") }

// OneLine escapes the characters that Visible escapes, and newlines and tabs: for table cells and other text on one
// line.
func OneLine(text string) string { return escaped(text, "") }

// escaped returns text with escapes for control characters, except those in keep, and for bytes that are not UTF-8.
func escaped(text, keep string) string {
	if isVisible(text, keep) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\x1b':
			b.WriteString("^[")
		case !unicode.IsControl(r) || strings.ContainsRune(keep, r):
			b.WriteString(text[:n])
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[n:]
	}
	return b.String()
}

func isVisible(text, keep string) bool {
	for i, r := range text {
		invalid := r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError))
		if invalid || unicode.IsControl(r) && !strings.ContainsRune(keep, r) {
			return false
		}
	}
	return true
}

// visibleWriter escapes control characters in each write separately, so no write may end within a UTF-8 character.
type visibleWriter struct{ w io.Writer }

// NewVisibleWriter returns a writer that escapes control characters and writes to w. No write may end within a UTF-8
// character.
func NewVisibleWriter(w io.Writer) io.Writer { return visibleWriter{w} }

func (v visibleWriter) Write(b []byte) (int, error) {
	text := string(b)
	if isVisible(text, "\n\t") {
		return v.w.Write(b)
	}
	if _, err := io.WriteString(v.w, Visible(text)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Writer escapes control characters on their way to a terminal. If a write ends within a UTF-8 character, the first
// bytes of the character are held until the next write.
type Writer struct {
	w    io.Writer
	rest []byte
}

// NewWriter returns a Writer to the terminal w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

func (t *Writer) Write(b []byte) (int, error) {
	text := append(t.rest, b...)
	whole := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				whole -= n
			}
			break
		}
	}
	t.rest = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(t.w, Visible(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes the held bytes of an incomplete UTF-8 character, escaped, because no write has completed it.
func (t *Writer) Flush() error {
	_, err := io.WriteString(t.w, Visible(string(t.rest)))
	t.rest = nil
	return err
}

// Unescaped returns the writer to which w writes, if w is an escaping writer of this package, and w itself otherwise.
// Use it for larder's own escape sequences.
func Unescaped(w io.Writer) io.Writer {
	switch w := w.(type) {
	case visibleWriter:
		return w.w
	case *Writer:
		return w.w
	}
	return w
}

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

// NewTable returns a table with these headers; Flush prints it to w.
func NewTable(w io.Writer, header ...string) *Table {
	t := &Table{to: w}
	t.Row(header...)
	return t
}

// Row adds a row to the table. Flush prints it.
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

// Flush prints all rows of the table, in columns.
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

// Colour is the terminal escape sequence that starts a colour; "" is no colour.
type Colour string

// The colours of good, doubtful and bad states.
const (
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Red    Colour = "\x1b[31m"
)

// Paint returns text between the escape sequences that start and end the colour.
func (c Colour) Paint(text string) string {
	if c == "" || text == "" {
		return text
	}
	return string(c) + text + "\x1b[0m"
}

// WantsColours returns false if NO_COLOR is set (https://no-color.org) or TERM is dumb.
func WantsColours() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
