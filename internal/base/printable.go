package base

import (
	"fmt"
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

// maxKey is the length in bytes of the longest object key, namespace/name, that Kubernetes allows.
const maxKey = 63 + 1 + 253

// PrintableKey returns an object's key from a file in a form that is safe in messages. In a damaged page of the file,
// tens of kilobytes of an object's content may follow a key, so PrintableKey cuts the key at the first byte that keys
// cannot contain.
func PrintableKey(key string) string {
	n := 0
	for n < len(key) && n < maxKey && key[n] >= ' ' && key[n] <= '~' {
		n++
	}
	if n == len(key) {
		return fmt.Sprintf("%q", key)
	}
	return fmt.Sprintf("%q… (%d bytes)", key[:n], len(key))
}
