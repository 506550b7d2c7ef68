package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns text of a file or server as a terminal may be given it: what would move the cursor, or do more, is
// written out (CVE-2021-25743), ESC and CR as kubectl writes them. Line ends and tabs stay.
func Visible(text string) string { return escaped(text, "\n\t") }

// OneLine is Visible for what has to stay on its line, and in its column.
func OneLine(text string) string { return escaped(text, "") }

// escaped writes out control characters, but those of keep, and what is no UTF-8.
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

// isVisible is quick for what has nothing to write out, as nearly all texts.
func isVisible(text, keep string) bool {
	for i, r := range text {
		invalid := r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError))
		if invalid || unicode.IsControl(r) && !strings.ContainsRune(keep, r) {
			return false
		}
	}
	return true
}

// visibleWriter writes visible texts. None ends within a character.
type visibleWriter struct{ w io.Writer }

// NewVisibleWriter returns a writer of visible texts to w.
func NewVisibleWriter(w io.Writer) io.Writer { return visibleWriter{w} }

// Write implements io.Writer.
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

// Writer writes visible texts to a terminal. A character that a write ends within waits for the next one.
type Writer struct {
	w    io.Writer
	rest []byte
}

// NewWriter returns a writer of visible texts to the terminal w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements io.Writer.
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

// Flush writes what waits: it is no character.
func (t *Writer) Flush() error {
	_, err := io.WriteString(t.w, Visible(string(t.rest)))
	t.rest = nil
	return err
}

// Unescaped returns where w writes to if it is a writer of this package, for what is to move the cursor; else w.
func Unescaped(w io.Writer) io.Writer {
	switch w := w.(type) {
	case visibleWriter:
		return w.w
	case *Writer:
		return w.w
	}
	return w
}
