package terminal

import (
	"os"
)

// Colour is the terminal escape sequence that starts a colour; "" is no colour.
type Colour string

const (
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Red    Colour = "\x1b[31m"
)

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
