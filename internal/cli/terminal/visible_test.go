package terminal_test

import (
	"testing"

	"github.com/larder-dev/larder/internal/cli/terminal"
)

func TestVisible(t *testing.T) {
	for text, want := range map[string][2]string{ // maps a text to the expected results of Visible and OneLine
		"":                   {"", ""},
		"plain · ü\t\n":      {"plain · ü\t\n", `plain · ü\t\n`},
		"\x1b]0;x\x07\r":     {`^[]0;x\u0007\r`, `^[]0;x\u0007\r`},
		"\u009b2J\x7f":       {`\u009b2J\u007f`, `\u009b2J\u007f`},
		"\x9b2J\xff \ufffd":  {`\x9b2J\xff ` + "\ufffd", `\x9b2J\xff ` + "\ufffd"},
		"a\x00\v\f\u202eb 语": {`a\u0000\u000b\u000c` + "\u202eb 语", `a\u0000\u000b\u000c` + "\u202eb 语"},
	} {
		if got := [2]string{terminal.Visible(text), terminal.OneLine(text)}; got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
