package query

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

type logFile struct {
	path   string
	src    source.Source
	status source.Status
	at     time.Time
}

func (o *logOptions) series(ctx context.Context, s command.IO, paths, args []string, since time.Time) error {
	key, err := o.identity.Key.Encryption()
	if err != nil {
		return err
	}
	var files []logFile
	defer func() {
		for _, f := range files {
			_ = f.src.Close()
		}
	}()
	var stored [][]source.Collection
	for _, path := range paths {
		src, status, err := o.identity.DescribePath(ctx, s, path)
		if err != nil {
			return err
		}
		files = append(files, logFile{path, src, status, timeOf(src, status)})
		stored = append(stored, status.Collections)
	}
	slices.SortStableFunc(files, func(a, b logFile) int { return a.at.Compare(b.at) })
	filter, names, err := o.selects.FilterObjects("none of the files", args, stored...)
	if err != nil {
		return err
	}
	to := s.Out
	if s.Colours && o.output.Format == formatChanges {
		to = s.Terminal()
	}
	out := bufio.NewWriterSize(to, 1<<16)
	// sealed is the error for encrypted resources that were not compared, from the first file that has some. All other
	// resources are compared.
	var sealed error
	for i, b := range files[1:] {
		if b.at.Before(since) {
			continue
		}
		a := files[i]
		before := compare.NewSide(a.path, a.path, a.src, a.status, key != nil)
		after := compare.NewSide(b.path, b.path, b.src, b.status, key != nil)
		if err = o.step(ctx, s, out, before, after, b.at, filter, names); err != nil {
			break
		}
		sealed = cmp.Or(sealed, sealedError(filter, before, after))
	}
	return command.Flushed(cmp.Or(err, sealed), out)
}

func (o *logOptions) step(
	ctx context.Context, s command.IO, out *bufio.Writer, a, b *compare.Side, at time.Time, filter snapshot.Filter,
	names input.ObjectNames,
) error {
	compare.SkipSealed(a, b, filter)
	done := s.Busy("comparing")
	p := o.printer(out, s, a, b, at)
	report, err := compare.Run(ctx, a, b, compare.Options{Filter: filter, Names: names,
		Ignore: append(diff.DefaultIgnore(), o.ignore...)}, p.change)
	done()
	if err != nil {
		return compareError(err)
	}
	if err := p.finish(report); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	compare.PrintParts(s, a, b, report, filter)
	return nil
}

func (o *logOptions) printer(w io.Writer, s command.IO, a, b *compare.Side, at time.Time) diffPrinter {
	taken := at.UTC().Format(time.RFC3339)
	lines := diffLines{w: w, lead: taken + " ", a: a.Path, b: b.Path}
	switch o.output.Format {
	case "name":
		return &lines
	case "json":
		return &logJSON{w: w, time: taken, file: b.Path, lines: diffLines{w: s.Err, lead: "note: ", a: a.Path, b: b.Path}}
	}
	return &diffChanges{lines, s.Colours}
}

type logJSON struct {
	w          io.Writer
	time, file string
	lines      diffLines
}

func (p *logJSON) change(c diff.Change) error {
	l := loggedJSON{
		Time: p.time, objectJSON: newObjectJSON(c.Kind, c.Collection.Identity.GroupVersionResource, c.Key), File: p.file,
	}
	if c.Before != nil && c.After != nil {
		for _, f := range compare.ChangedFields(c) {
			l.Fields = append(l.Fields, loggedField{f.Path, strings.Join(f.Before, "\n"), strings.Join(f.After, "\n")})
		}
	}
	return json.NewEncoder(p.w).Encode(l)
}

func (p *logJSON) finish(r diff.Report) error { return p.lines.finish(r) }
