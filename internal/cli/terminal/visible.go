package terminal

import (
	"fmt"
	"io"
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
