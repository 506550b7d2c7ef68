// Package printable makes untrusted text, such as text from files, safe to show on a terminal.
package base

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// PrintableText returns s unchanged if all of it is printable and on one line. Otherwise it quotes s as in Go, so that
// s cannot move the cursor or pass as a line of the program's own output.
func PrintableText(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}
