package serving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/serve/page"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
	"github.com/larder-dev/larder/store"
)

// ofMirror, ofStore and ofSnapshot are the page's words for the served content.
const (
	ofMirror   = "mirror"
	ofStore    = "store"
	ofSnapshot = "snapshot"
)

func (p *Port) pageOptions(s Served) page.Options {
	o := page.Options{Status: func(ctx context.Context) (page.Status, error) {
		status, err := s.Status(ctx)
		if errors.Is(err, store.ErrOverwritten) {
			err = apierrors.NewServiceUnavailable(err.Error())
		}
		shown, memory := pageStatus(time.Now(), status, p.o.Secrets), p.Memory.Usage()
		shown.Memory = page.Memory{Size: memory.Size, Used: memory.Used, Refused: memory.Refused}
		return shown, err
	}}
	if s.Log != nil {
		o.Changes = p.changed(s)
	}
	if s.Compared != nil {
		o.Compare, o.Sides = s.Compared.compare, s.Compared.sides
	}
	return o
}

// pageStatus converts a status into the form that the page shows. secrets says that Secrets and encrypted resources are
// served.
func pageStatus(now time.Time, s source.Status, secrets bool) page.Status {
	st := page.Status{File: s.Store, Of: ofStore, Version: source.Version(), Now: now, Bytes: s.Bytes, Error: s.Error}
	if i := s.Snapshot; i != nil {
		st.Of, st.Snapshot = ofSnapshot, &page.Snapshot{TakenAt: i.TakenAt, ClusterID: i.ClusterID,
			ServerVersion: i.ServerVersion, Larder: i.Larder, Encrypted: i.Encrypted, LeftOut: i.LeftOut}
	}
	var mirrored int
	var forbidden []source.Collection
	for _, c := range s.Collections {
		if c.Live != nil {
			st.Of = ofMirror
			mirrored++
		}
		if input.Forbidden(c) {
			forbidden = append(forbidden, c)
		}
	}
	if len(forbidden) > 0 {
		st.Forbidden = input.ForbiddenNote(forbidden, mirrored)
	}
	for _, c := range s.Collections {
		one := pageCollection(now, c)
		switch {
		case !c.Persistent:
			one.Hidden = "kept in memory only, and not served"
		case c.Saved().Confidential() != "" && !secrets:
			one.Hidden = "served with --serve-secrets only"
		case st.Of == ofMirror && c.Live == nil:
			one.Hidden = "left by an earlier sync; nothing mirrors it, and it is not served"
		}
		st.Collections = append(st.Collections, one)
	}
	return st
}

func pageCollection(now time.Time, c source.Collection) page.Collection {
	one := page.Collection{
		Group: c.Group, Version: c.Version, Resource: c.Resource, Namespaced: c.Namespaced,
		Namespace: c.Namespace, LabelSelector: c.LabelSelector, FieldSelector: c.FieldSelector, Scope: input.Scope(c),
		Metadata: c.Representation == "metadata", Objects: c.Objects, ResourceVersion: c.ResourceVersion,
		State: input.StateWithoutNotes(now, c), LastContact: c.LastContact, Well: c.Complete,
	}
	for _, n := range input.Notes(c) {
		one.Notes = append(one.Notes, n.Text)
		one.Well = one.Well && n.Kind == entry.NoteTransform // a transform is intended
	}
	if c.LastContact.IsZero() {
		one.LastContact = c.TakenAt
	}
	if c.Live == nil {
		return one
	}
	l := c.Live
	one.Well = one.Well && l.Source == string(informer.Live) && l.Error == ""
	one.Live = &page.Live{Resumes: l.Resumes, Watches: l.Watches, Lists: l.Lists, Relists: l.Relists,
		Received: l.BytesReceived, Error: input.LiveError(*l), Unguarded: l.Unguarded, IncidentTotals: l.IncidentTotals}
	if input.Forbidden(c) {
		one.Live.Error = "" // the page shows Status.Forbidden instead of this error
	}
	return one
}

// mostDifferences, mostFieldBytes and mostFieldLines bound the comparison on the page: the number of differences, the
// total bytes of their fields, and the lines of one value.
const (
	mostDifferences = 5000
	mostFieldBytes  = 8 << 20
	mostFieldLines  = 100
)

// Compared is the comparison of the served file with an older one.
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

func (p *Port) changed(s Served) func(context.Context, page.ChangesQuery) (page.Record, error) {
	return func(ctx context.Context, asked page.ChangesQuery) (page.Record, error) {
		status, err := s.Status(ctx)
		if err != nil {
			return page.Record{}, err
		}
		shown := pageStatus(time.Now(), status, p.o.Secrets)
		var of []source.Collection
		for i, c := range status.Collections {
			kind := schema.GroupResource{Group: c.Group, Resource: c.Resource}.String()
			if shown.Collections[i].Hidden == "" && c.Changes != nil && (asked.Kind == "" || asked.Kind == kind) {
				of = append(of, c)
			}
		}
		record := page.Record{Since: asked.Since.UTC(), Counts: map[string]int{}}
		q := source.LogQuery{Since: asked.Since, Newest: asked.Limit}
		if asked.Namespace != "" || asked.Name != "" {
			q.Matches = func(key string) bool {
				namespace, name := input.SplitKey(key)
				return (asked.Namespace == "" || asked.Namespace == namespace) && strings.Contains(name, asked.Name)
			}
		}
		all, err := source.LogAll(ctx, s.Log, of, q, func(_ source.Collection, from time.Time) {
			if from.After(record.Since) {
				record.Since = from.UTC()
			}
		})
		if err != nil {
			return page.Record{}, err
		}
		for _, c := range all {
			record.Counts[schema.GroupResource{Group: c.Collection.Group, Resource: c.Collection.Resource}.String()]++
		}
		for _, c := range slices.Backward(all[max(0, len(all)-asked.Limit):]) {
			one := page.Change{Time: c.Time.UTC(), Kind: kinds[c.Type], Group: c.Collection.Group,
				Version: c.Collection.Version, Resource: c.Collection.Resource}
			one.Namespace, one.Name = input.SplitKey(c.Key)
			record.Changes = append(record.Changes, one)
		}
		return record, nil
	}
}

var kinds = map[source.EventType]string{
	source.Added: page.Added, source.Modified: page.Changed, source.Deleted: page.Removed,
}

func logOf(ctx context.Context, f *source.File) (source.Logger, error) {
	status, err := f.Status(ctx)
	if err != nil || !slices.ContainsFunc(status.Collections, func(c source.Collection) bool { return c.Changes != nil }) {
		return nil, err
	}
	return f, nil
}
