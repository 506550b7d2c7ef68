// Package printable makes texts that somebody else has written, as files have them, fit to be shown on a terminal.
package printable

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text is s as it is if all of it can be printed, on one line. Else it is quoted as Go does it, so that nothing in it
// moves a cursor or passes for a line of a program's own.
func Text(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}
