package serving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve/page"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

// mostDifferences, mostFieldBytes and mostFieldLines bound the comparison on the page: the number of differences, the
// total bytes of their fields, and the lines of one value.
const (
	mostDifferences = 5000
	mostFieldBytes  = 8 << 20
	mostFieldLines  = 100
)

type Compared struct {
	a, b   *compare.Side
	hidden []string // hidden has messages about resources that the comparison leaves out, with the reason
	// result is the comparison, computed at the first request and then reused, because neither file changes.
	result *page.Comparison
}

// NewCompared compares the served file b with the older file a, as larder diff does. secrets says that Secrets and
// encrypted resources are served; otherwise the comparison leaves these resources out. Their values are never shown.
func NewCompared(a, b *compare.Side, secrets bool) *Compared {
	c := &Compared{a: a, b: b}
	for _, side := range []*compare.Side{a, b} {
		for _, of := range side.SealedOf(snapshot.Filter{}) {
			c.hidden = append(c.hidden, fmt.Sprintf("%s of %s are sealed, and are not compared: no key was given",
				of.Named(), side.Path))
		}
		for _, of := range side.Status.Collections {
			if of.Saved().Confidential() != "" && !secrets {
				a.Skip(of.GVR())
				b.Skip(of.GVR())
				c.hidden = append(c.hidden, fmt.Sprintf("%s of %s are compared with --serve-secrets only",
					of.Named(), side.Path))
			}
		}
	}
	compare.SkipSealed(a, b, snapshot.Filter{})
	return c
}

// compare implements page.Options.Compare. It must not be called concurrently.
func (c *Compared) compare(ctx context.Context) (page.Comparison, error) {
	if c.result != nil {
		return *c.result, nil
	}
	out := page.Comparison{A: pageSide(c.a), B: pageSide(c.b)}
	bytesLeft := mostFieldBytes
	report, err := compare.Run(ctx, c.a, c.b, compare.Options{Ignore: diff.DefaultIgnore()}, func(d diff.Change) error {
		if len(out.Changes) == mostDifferences || bytesLeft < 0 {
			out.Left++
			return ctx.Err()
		}
		one := pageChange(d)
		for _, f := range one.Fields {
			bytesLeft -= len(f.Path) + len(f.Old) + len(f.New)
		}
		out.Changes = append(out.Changes, one)
		return nil
	})
	if err != nil {
		return out, err
	}
	out.Added, out.Removed, out.Changed, out.Replaced, out.Same =
		report.Added, report.Removed, report.Changed, report.Replaced, report.Same
	out.Notes = append(c.notes(report), c.hidden...)
	c.result = &out
	return out, nil
}

func (c *Compared) notes(r diff.Report) (notes []string) {
	for _, only := range []struct {
		of   string
		what []snapshot.Collection
	}{{c.a.Path, r.OnlyInA}, {c.b.Path, r.OnlyInB}} {
		for _, one := range only.what {
			notes = append(notes, fmt.Sprintf("%s: only %s stores it; its objects are not counted", input.NameOf(one), only.of))
		}
	}
	var printed bytes.Buffer
	compare.PrintParts(command.IO{Err: &printed}, c.a, c.b, r, snapshot.Filter{})
	for line := range strings.Lines(printed.String()) {
		notes = append(notes, strings.TrimSpace(strings.TrimPrefix(line, "note: ")))
	}
	return notes
}

func pageSide(s *compare.Side) page.Side {
	side := page.Side{File: s.Path}
	if s.Status.Snapshot != nil {
		side.TakenAt = s.Status.Snapshot.TakenAt
	}
	return side
}

func pageChange(d diff.Change) page.Change {
	id := d.Collection.Identity
	one := page.Change{Kind: string(d.Kind), Group: id.Group, Version: id.Version, Resource: id.Resource}
	one.Namespace, one.Name = input.SplitKey(d.Key)
	switch {
	case d.Kind == diff.Added || d.Kind == diff.Removed:
	case d.Before == nil || d.After == nil:
		one.Note = "of a type that this program does not know: what changed cannot be told"
	default:
		for _, f := range compare.ChangedFields(d) {
			one.Fields = append(one.Fields, page.Field{Path: f.Path, Old: joined(f.Before), New: joined(f.After)})
		}
	}
	return one
}

// joined returns the lines of a value as one text. After mostFieldLines lines it has only the number of further lines.
func joined(lines []string) string {
	if more := len(lines) - mostFieldLines; more > 0 {
		lines = append(lines[:mostFieldLines:mostFieldLines], fmt.Sprintf("… %d more lines", more))
	}
	return strings.Join(lines, "\n")
}

func (c *Compared) sides(ctx context.Context, r page.Ref) (a, b string, err error) {
	gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
	if a, err = c.a.Object(ctx, gvr, r.Namespace, r.Name); err == nil {
		b, err = c.b.Object(ctx, gvr, r.Namespace, r.Name)
	}
	if err == nil && a == "" && b == "" {
		err = page.ErrNotFound
	}
	return a, b, err
}

func (o *serveOptions) compared(
	ctx context.Context, s command.IO, served source.Source,
) (c *Compared, closeA func() error, err error) {
	key, err := o.from.Key.Encryption()
	if err != nil {
		return nil, nil, err
	}
	status, err := served.Status(ctx)
	if err != nil {
		return nil, nil, input.ReadError(o.from.Path, err)
	}
	src, of, err := o.from.DescribePath(ctx, s, o.compare)
	if err != nil {
		return nil, nil, err
	}
	if _, held := src.(*source.Client); held {
		return nil, nil, errors.Join(command.WithHint(
			fmt.Errorf("--compare %s: the file changes: it is held by %s", o.compare, input.Holding(o.compare)),
			"compare with a snapshot of it: larder snapshot save FILE --from %s", o.compare), src.Close())
	}
	a := compare.NewSide("A", o.compare, src, of, key != nil)
	b := compare.NewSide("B", o.from.Path, served, status, key != nil)
	return NewCompared(a, b, o.flags.Secrets), src.Close, nil
}
