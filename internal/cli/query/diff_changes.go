package query

import (
	"fmt"

	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/snapshot/diff"
)

// diffChanges prints each object that differs, and below it the differing fields with old and new values.
type diffChanges struct {
	diffLines
	colours bool
}

var colourOfChange = map[diff.Kind]terminal.Colour{
	diff.Added: terminal.Green, diff.Removed: terminal.Red,
	diff.Changed: terminal.Yellow, diff.Replaced: terminal.Yellow,
}

func (p *diffChanges) change(c diff.Change) error {
	if err := p.line(colourOfChange[c.Kind], "", p.headline(c)); err != nil {
		return err
	}
	switch {
	case c.Kind == diff.Added, c.Kind == diff.Removed:
		return nil
	case c.Before == nil || c.After == nil:
		return p.line("", "  ", "of a type that this program does not know: what changed cannot be told")
	}
	return p.fields(compare.ChangedFields(c))
}

// fields prints the path of each changed field, and its old and new lines below the path. Adjacent fields with one path
// are printed below one line.
func (p *diffChanges) fields(all []compare.Field) error {
	for i, f := range all {
		indent := "  "
		if f.Path != "" {
			indent = "    "
			if i == 0 || all[i-1].Path != f.Path {
				if err := p.line("", "  ", f.Path); err != nil {
					return err
				}
			}
		}
		for _, side := range []struct {
			sign   string
			colour terminal.Colour
			lines  []string
		}{{"- ", terminal.Red, f.Before}, {"+ ", terminal.Green, f.After}} {
			for _, line := range side.lines {
				if err := p.line(side.colour, indent, side.sign+line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *diffChanges) line(c terminal.Colour, indent, text string) error {
	text = terminal.OneLine(text)
	if p.colours {
		text = c.Paint(text)
	}
	_, err := fmt.Fprintf(p.w, "%s%s\n", indent, text)
	return err
}
