package query

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

// diffChanges names each object that is different, and below it the fields that are, with what they were and are.
type diffChanges struct {
	w       io.Writer
	colours bool
}

// colourOfChange is that of what became of an object.
var colourOfChange = map[diff.Kind]terminal.Colour{
	diff.Added: terminal.Green, diff.Removed: terminal.Red,
	diff.Changed: terminal.Yellow, diff.Replaced: terminal.Yellow,
}

func (p *diffChanges) change(c diff.Change) error {
	what := fmt.Sprintf("%s %s %s", c.Kind, input.NameOf(c.Collection), c.Key)
	if err := p.line(colourOfChange[c.Kind], "", what); err != nil {
		return err
	}
	switch {
	case c.Kind == diff.Added, c.Kind == diff.Removed:
		return nil
	case c.Before == nil || c.After == nil:
		return p.line("", "  ", "of a type that this program does not know: what changed cannot be told")
	}
	fields := compareFields(c.Before.Object, c.After.Object, concealedIn(c.Collection))
	if c.Kind == diff.Replaced {
		fields = slices.DeleteFunc(fields, isNewborn)
	}
	return p.fields(fields)
}

// isNewborn: every object that was made again has another of these.
func isNewborn(f fieldChange) bool {
	is := func(lines []string) bool {
		return len(lines) == 1 && (strings.HasPrefix(lines[0], "uid: ") || strings.HasPrefix(lines[0], "creationTimestamp: "))
	}
	return f.path == "metadata" && is(f.before) && is(f.after)
}

// fields prints what has changed, under the path where it is. Neighbours at one path share it.
func (p *diffChanges) fields(all []fieldChange) error {
	for i, f := range all {
		indent := "  "
		if f.path != "" {
			indent = "    "
			if i == 0 || all[i-1].path != f.path {
				if err := p.line("", "  ", f.path); err != nil {
					return err
				}
			}
		}
		for _, side := range []struct {
			sign   string
			colour terminal.Colour
			lines  []string
		}{{"- ", terminal.Red, f.before}, {"+ ", terminal.Green, f.after}} {
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

func (p *diffChanges) finish(r diff.Report) error { return (&diffLines{w: p.w}).finish(r) }

// concealedIn says where values of a collection's objects are not shown; nil if all are.
func concealedIn(c snapshot.Collection) func(path []string) bool {
	switch {
	case c.Confidential() == "":
		return nil
	case c.Identity.GroupResource() != input.Secrets.GroupResource(): // which a store seals
		return func([]string) bool { return true }
	}
	return func(path []string) bool {
		annotations := len(path) > 1 && path[0] == "metadata" && path[1] == "annotations"
		return path[0] == "data" || path[0] == "stringData" || annotations
	}
}
