package cli

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
)

// leastHelp is the narrowest terminal, in columns, to which help is fitted.
const leastHelp = 40

// fitHelp makes every command fit its help to the terminal's width. Without a terminal, or on a terminal narrower than
// leastHelp, help is printed unchanged.
func fitHelp(root *cobra.Command, s command.IO) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		width, _ := s.TerminalSize()
		if width < leastHelp {
			help(cmd, args)
			return
		}
		var text bytes.Buffer
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(nil) // nil is cobra's default: the command prints to the writer of its parent
		_, _ = io.WriteString(s.Out, fitted(text.String(), width))
	})
}

// fitted wraps a help text to width columns. It refills paragraphs. Each indented line, such as a flag, starts a new
// line; its continuation lines are indented to the line's second column (see hanging).
func fitted(text string, width int) string {
	var out strings.Builder
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			fill(&out, strings.Join(paragraph, " "), 0, width)
			paragraph = nil
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			if strings.HasSuffix(line, ":") {
				// A line that ends with a colon, such as a heading, is not joined with the next line.
				end()
			}
			continue
		}
		end()
		if line == "" {
			fmt.Fprintln(&out)
			continue
		}
		fill(&out, line, hanging(line, width), width)
	}
	end()
	return out.String()
}

// gap matches the blanks between two columns of a help text, which are two or more.
var gap = regexp.MustCompile(`\S( {2,})\S`)

// hanging returns the indent of a line's continuation lines: the position of the line's second column, or, without a
// second column, four more than the line's own indent.
func hanging(line string, width int) int {
	if at := gap.FindStringSubmatchIndex(line); at != nil {
		if column := utf8.RuneCountInString(line[:at[3]]); column <= width/2 {
			return column
		}
	}
	return len(line) - len(strings.TrimLeft(line, " ")) + 4
}

func fill(out *strings.Builder, line string, indent, width int) {
	for utf8.RuneCountInString(line) > width {
		head := string([]rune(line)[:width+1])
		at := strings.LastIndex(head, " ")
		if strings.TrimSpace(head[:max(at, 0)]) == "" { // the first word is longer than the line: it is not broken
			break
		}
		fmt.Fprintln(out, strings.TrimRight(line[:at], " "))
		rest := strings.TrimLeft(line[at:], " ")
		word, _, _ := strings.Cut(rest, " ")
		line = strings.Repeat(" ", max(0, min(indent, width-utf8.RuneCountInString(word)))) + rest
	}
	fmt.Fprintln(out, line)
}
