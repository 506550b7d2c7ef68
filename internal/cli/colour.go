package cli

import (
	"io"
	"os"
	"strings"
)

// colour is an escape sequence that begins a colour; empty is none.
type colour string

const (
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	red    colour = "\x1b[31m"
	bold   colour = "\x1b[1m"
)

// paint returns text in the colour.
func (c colour) paint(text string) string {
	if c == "" || text == "" {
		return text
	}
	return string(c) + text + "\x1b[0m"
}

// wantsColours reports whether a terminal is to be coloured (https://no-color.org).
func wantsColours() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// terminal is Out for what colours it, or moves the cursor there: all else of what is written has to be visible.
func (s IO) terminal() io.Writer {
	if t, ok := s.Out.(*terminalWriter); ok {
		return t.w
	}
	return s.Out
}

// colourOfState is that of a state, or a source, as tables have it.
func colourOfState(state string) colour {
	word, more, _ := strings.Cut(state, ",")
	first, _, _ := strings.Cut(word, " ")
	switch {
	case strings.Contains(more, "incomplete"), strings.Contains(more, "anew"):
		return red
	case first == "live":
		return green
	case first == "offline", first == "waiting", first == "stale":
		return yellow
	}
	return ""
}
