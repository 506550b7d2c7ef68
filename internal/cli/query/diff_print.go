package query

import (
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

// diffPrinter prints each difference when it is found, and a report after the last one.
type diffPrinter interface {
	change(c diff.Change) error
	finish(r diff.Report) error
}

// gaps returns the names ("A", "B") of the files whose collection of a resource is incomplete. An object missing from
// an incomplete collection may still exist.
type gaps func(entry.Identity) []string

func newDiffPrinter(w io.Writer, format string, colours bool, gaps gaps) diffPrinter {
	lines := diffLines{w: w, a: "A", b: "B"}
	switch format {
	case "name":
		return &lines
	case "json":
		return &diffJSON{w: w, gaps: gaps}
	}
	return &diffChanges{diffLines: lines, colours: colours}
}

type diffLines struct {
	w io.Writer
	// lead begins each line; a and b are the paths of the two files.
	lead, a, b string
}

func (p *diffLines) headline(c diff.Change) string {
	return fmt.Sprintf("%s%s %s %s", p.lead, c.Kind, terminal.OneLine(input.NameOf(c.Collection)), terminal.OneLine(c.Key))
}

func (p *diffLines) change(c diff.Change) error {
	_, err := fmt.Fprintln(p.w, p.headline(c))
	return err
}

func (p *diffLines) finish(r diff.Report) error {
	for _, only := range []struct {
		kind diff.Kind
		file string
		in   []snapshot.Collection
	}{{diff.Removed, p.a, r.OnlyInA}, {diff.Added, p.b, r.OnlyInB}} {
		for _, c := range only.in {
			_, err := fmt.Fprintf(p.w, "%s%s %s (%s): only %s stores it; its objects are not counted\n", p.lead, only.kind,
				terminal.OneLine(input.NameOf(c)), terminal.OneLine(input.ScopeOfID(c.Identity)), terminal.OneLine(only.file))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// patchOf returns the JSON merge patch from the old to the new object of a change, if any. Values of Secrets and of
// encrypted resources are replaced by a placeholder.
func patchOf(c diff.Change) (any, error) {
	if c.Patch == nil {
		return nil, nil
	}
	var patch map[string]any
	if err := json.Unmarshal(c.Patch, &patch); err != nil {
		return nil, err
	}
	switch {
	case c.Collection.Confidential() == "":
	case c.Collection.Identity.GroupResource() == input.Secrets.GroupResource():
		hide(patch)
	default:
		hideAll(patch)
	}
	return patch, nil
}

// hide replaces the values in the patch of a Secret that may be confidential: data, stringData, and annotations,
// because last-applied-configuration repeats the data.
func hide(patch map[string]any) {
	for _, field := range []string{"data", "stringData"} {
		hideValues(patch, field)
	}
	if meta, ok := patch["metadata"].(map[string]any); ok {
		hideValues(meta, "annotations")
	}
}

// hideAll replaces every value of a patch, at any depth, except the nulls of removed fields.
func hideAll(patch map[string]any) {
	for name, v := range patch {
		if m, ok := v.(map[string]any); ok {
			hideAll(m)
		} else if v != nil {
			patch[name] = compare.Hidden
		}
	}
}

func hideValues(object map[string]any, field string) {
	values, ok := object[field].(map[string]any)
	if !ok {
		if object[field] != nil {
			object[field] = compare.Hidden
		}
		return
	}
	for name, v := range values {
		if v != nil {
			values[name] = compare.Hidden
		}
	}
}

type diffJSON struct {
	w    io.Writer
	gaps gaps
	n    int
}

// objectJSON identifies a changed object in the JSON of larder diff and larder log.
type objectJSON struct {
	Change    diff.Kind `json:"change"`
	Group     string    `json:"group"`
	Version   string    `json:"version"`
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
}

func newObjectJSON(change diff.Kind, r schema.GroupVersionResource, key string) objectJSON {
	o := objectJSON{Change: change, Group: r.Group, Version: r.Version, Resource: r.Resource}
	o.Namespace, o.Name = input.SplitKey(key)
	return o
}

type diffChange struct {
	objectJSON
	// Incomplete lists the files, A and B, whose collection of the resource is incomplete. An added or removed object may
	// only be missing from that collection.
	Incomplete []string `json:"incomplete,omitempty"`
	Patch      any      `json:"patch,omitempty"`
}

type diffSummary struct {
	Added    int      `json:"added"`
	Removed  int      `json:"removed"`
	Changed  int      `json:"changed"`
	Replaced int      `json:"replaced"`
	Same     int      `json:"same"`
	OnlyInA  []string `json:"onlyInA"`
	OnlyInB  []string `json:"onlyInB"`
	// Overlaps describes the compared part of each pair of collections with different namespaces or selectors: the part
	// that the two collections share.
	Overlaps []string `json:"overlaps,omitempty"`
}

func (p *diffJSON) change(c diff.Change) error {
	patch, err := patchOf(c)
	if err != nil {
		return err
	}
	id := c.Collection.Identity
	one := diffChange{newObjectJSON(c.Kind, id.GroupVersionResource, c.Key), p.gaps(id), patch}
	text, err := json.MarshalIndent(one, "        ", "    ")
	if err != nil {
		return err
	}
	lead := ",\n        "
	if p.n == 0 {
		lead = "{\n    \"changes\": [\n        "
	}
	p.n++
	_, err = fmt.Fprintf(p.w, "%s%s", lead, text)
	return err
}

func (p *diffJSON) finish(r diff.Report) error {
	sum := diffSummary{Added: r.Added, Removed: r.Removed, Changed: r.Changed, Replaced: r.Replaced, Same: r.Same,
		OnlyInA: []string{}, OnlyInB: []string{}}
	for _, c := range r.OnlyInA {
		sum.OnlyInA = append(sum.OnlyInA, c.Identity.String())
	}
	for _, c := range r.OnlyInB {
		sum.OnlyInB = append(sum.OnlyInB, c.Identity.String())
	}
	for _, o := range r.Overlaps {
		sum.Overlaps = append(sum.Overlaps, o.Scope.String())
	}
	text, err := json.MarshalIndent(sum, "    ", "    ")
	if err != nil {
		return err
	}
	lead := "\n    ],\n"
	if p.n == 0 {
		lead = "{\n    \"changes\": [],\n"
	}
	_, err = fmt.Fprintf(p.w, "%s    \"summary\": %s\n}\n", lead, text)
	return err
}

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
