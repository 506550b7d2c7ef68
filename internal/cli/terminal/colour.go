package terminal

import (
	"os"
)

// Colour is an escape sequence that begins a colour; empty is none.
type Colour string

// The colours that tables and changes are shown in.
const (
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Red    Colour = "\x1b[31m"
)

// Paint returns text in the colour.
func (c Colour) Paint(text string) string {
	if c == "" || text == "" {
		return text
	}
	return string(c) + text + "\x1b[0m"
}

// WantsColours reports whether a terminal is to be coloured (https://no-color.org).
func WantsColours() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
