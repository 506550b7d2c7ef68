package query

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/config"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
	"github.com/larder-dev/larder/store/consumer"
)

type logOptions struct {
	identity input.IdentityFlag
	selects  input.SelectFlags
	output   command.OutputFlag
	since    string
	ignore   []string
}

// NewLog returns larder log.
func NewLog(s command.IO) *cobra.Command {
	var o logOptions
	cmd := &cobra.Command{
		Use:   "log [FILE…] [RESOURCE[/NAME]…]",
		Short: "Print the changes of a store, or from snapshot to snapshot",
		Long: `Print the changes of all resources, oldest first.

For a store of larder sync --keep-changes 24h, or of larder sync --serve, which keeps changes for an hour, it prints
each changed object once, with its last change: a created object is added, a deleted one is removed. The time is that
of storing the change, to the minute. A change that was found by a list may have happened earlier. Selectors apply to
the present state of an object, or to its last state before it was deleted.

For several snapshots or stores, it prints the changes from each file to the next, in the order in which they were
taken, with the changed fields of each object: the old value (-) and the new one (+), like larder diff. The time is
that of the later file.

  -o changes  a line for each changed object and, for several files, its changed fields below it. The default
  -o name     these lines alone
  -o json     for programs, one object a line

Values of Secrets, and of other resources that a store seals, are not shown.`,
		Example: `  larder log cluster.db --since 2h
  larder log cluster.db pods,deploy/web -n web --since 2026-11-28T09:00:00Z
  larder log cluster.db pods -l app=web
  larder log mon.larder tue.larder wed.larder --ignore status`,
		RunE:              func(cmd *cobra.Command, args []string) error { return runLog(cmd.Context(), s, &o, args) },
		ValidArgsFunction: command.CompleteFile,
	}
	o.identity.Add(cmd)
	o.selects.Add(cmd)
	o.output.Add(cmd, formatChanges, "name", "json")
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "",
		"print changes since a `TIME`, such as 2026-11-28, 2026-11-28T09:00:00Z or 2h (ago), or, "+
			"for one resource of a store, "+
			"after a number that larder watch has printed. Default is all changes that are kept")
	f.StringArrayVar(&o.ignore, "ignore", nil,
		"for several files, exclude the field at `PATH`, like larder diff; may be given again")
	return cmd
}

func runLog(ctx context.Context, s command.IO, o *logOptions, args []string) error {
	if err := errors.Join(o.output.Check(), o.selects.Check(), checkPaths(o.ignore)); err != nil {
		return command.Usage(err)
	}
	since, err := parseMoment(o.since, s.Now())
	if err != nil {
		return err
	}
	var files []string
	for len(args) > 0 && input.LooksLikeFile(args[0]) {
		files, args = append(files, args[0]), args[1:]
	}
	if len(files) == 0 {
		if path := command.OrVariable(""); path != "" {
			files = []string{path}
		}
	}
	switch {
	case len(files) == 0:
		return command.Usagef("log needs a store, or two snapshots or more")
	case len(files) > 1 && since.cursor != nil:
		return command.Usagef("--since %s is a place in one store: of several files it has to be a time", o.since)
	case len(files) > 1:
		return o.series(ctx, s, files, args, since.at)
	case len(o.ignore) > 0:
		return command.Usagef("--ignore needs several files: what the fields of an object were is not kept in a store")
	}
	return o.ofStore(ctx, s, files[0], args, since)
}

// moment is the value of larder log --since, from which changes are printed: a time, or a position in a changelog. The
// zero value means the beginning of the changelog.
type moment struct {
	at     time.Time
	cursor *since
}

func parseMoment(text string, now time.Time) (moment, error) {
	if text == "" {
		return moment{}, nil
	}
	if cursor, err := parseSince(text); err == nil {
		return moment{cursor: cursor}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return moment{at: at}, nil
		}
	}
	if ago, err := config.Age(text); err == nil && ago > 0 {
		return moment{at: now.Add(-ago)}, nil
	}
	return moment{}, command.Usagef(
		"--since %q: it must be a time, such as 2026-11-28, 2026-11-28T09:00:00Z or 2h (ago), or a number "+
			"that larder watch has printed", text)
}

func errNothing(path string) error { return fmt.Errorf("%s stores nothing of that", path) }

// toTheMinute is the time format of changes in a changelog, which stores times with a precision of a minute.
const toTheMinute = "2006-01-02T15:04Z07:00"

// kindOf maps the event types of a changelog to the kinds of change that larder diff names.
var kindOf = map[source.EventType]diff.Kind{
	source.Added: diff.Added, source.Modified: diff.Changed, source.Deleted: diff.Removed,
}

func (o *logOptions) ofStore(ctx context.Context, s command.IO, path string, args []string, since moment) error {
	src, status, err := o.identity.DescribePath(ctx, s, path)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	logger, ok := src.(source.Logger)
	if !ok {
		return command.WithHint(command.Usagef("%s is a snapshot, of one moment", path),
			"name a later one to compare it with, as in: larder log %s tuesday.larder", path)
	}
	filter, names, err := o.selects.FilterObjects(path, args, status.Collections)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(status.Collections),
		func(c source.Collection) bool { return !filter.Takes(c.Saved()) })
	switch {
	case len(chosen) == 0:
		return errNothing(path)
	case since.cursor != nil && len(chosen) > 1:
		return command.Usagef("--since %s is a place in the changes of one resource, and not of %d: name it, or give a time",
			o.since, len(chosen))
	case since.cursor != nil:
		if err := since.cursor.of(path, chosen[0].Named(), chosen[0]); err != nil {
			return err
		}
	}
	input.PrintDefects(s, chosen)
	changes, err := o.collect(ctx, s, logger, path, chosen, since, names)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		since := "its changes are kept"
		if o.since != "" {
			since = o.since
		}
		fmt.Fprintf(s.Err, "note: nothing that is asked for of %s has changed since %s\n", path, since)
	}
	out := bufio.NewWriterSize(s.Out, 1<<16)
	for _, c := range changes {
		if err = o.printLogged(out, c); err != nil {
			break
		}
	}
	return command.Flushed(err, out)
}

func (o *logOptions) collect(
	ctx context.Context, s command.IO, logger source.Logger, path string, chosen []source.Collection, since moment,
	names input.ObjectNames,
) (changes []source.LoggedOf, err error) {
	defer s.Busy("reading")()
	var without []source.Collection
	// late has the labels of collections whose changelog begins after --since, by the time of that beginning.
	late := map[string][]string{}
	q := source.LogQuery{Since: since.at, Selector: o.selects.Labels, Fields: o.selects.Fields}
	if since.cursor != nil {
		q.After = &since.cursor.seq
	}
	changes, err = source.LogAll(ctx, logger, chosen, q, func(c source.Collection, from time.Time) {
		switch {
		case from.IsZero():
			without = append(without, c)
		case !since.at.IsZero():
			at := from.UTC().Format(toTheMinute)
			late[at] = append(late[at], input.Label(c))
		}
	})
	if err != nil {
		return nil, input.ReadError(path, err)
	}
	for _, at := range slices.Sorted(maps.Keys(late)) {
		fmt.Fprintf(s.Err, "note: of %s changes are kept since %s\n", input.Some(late[at]), at)
	}
	var labels []string
	for _, c := range without {
		labels = append(labels, input.Label(c))
	}
	of := input.Some(labels)
	switch {
	case len(without) == len(chosen):
		return nil, command.WithHint(command.Reworded(consumer.ErrNotKept, "%s does not keep what changes of %s", path, of),
			"larder sync --keep-changes 24h keeps it from then on; or compare snapshots: larder log mon.larder tue.larder")
	case len(without) > 0:
		fmt.Fprintf(s.Err, "note: of %s no changes are kept\n", of)
	}
	return slices.DeleteFunc(changes, func(c source.LoggedOf) bool {
		ns, _ := input.SplitKey(c.Key)
		return len(o.selects.Namespaces) > 0 && !slices.Contains(o.selects.Namespaces, ns) ||
			!names.Take(c.Collection.GVR(), c.Key)
	}), nil
}

type loggedJSON struct {
	Time string `json:"time,omitempty"`
	objectJSON
	// Seq is the number of the change in the store's changelog; it is left out in a log of several files.
	Seq uint64 `json:"seq,omitempty"`
	// Fields are the differences from the previous file, if larder log compares several files.
	Fields []loggedField `json:"fields,omitempty"`
	File   string        `json:"file,omitempty"`
}

// loggedField is a changed field in the JSON of larder log. Old and New are lines of YAML.
type loggedField struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

func (o *logOptions) printLogged(w io.Writer, c source.LoggedOf) error {
	at := ""
	if !c.Time.IsZero() {
		at = c.Time.UTC().Format(toTheMinute)
	}
	kind, r := kindOf[c.Type], c.Collection.Named()
	if o.output.Format == "json" {
		return json.NewEncoder(w).Encode(loggedJSON{
			Time: at, objectJSON: newObjectJSON(kind, r.GroupVersionResource, c.Key), Seq: c.Seq,
		})
	}
	at = cmp.Or(at, strings.Repeat("-", len("2006-01-02T15:04Z")))
	_, err := fmt.Fprintf(w, "%s %s %s %s\n", at, kind, r, terminal.OneLine(c.Key))
	return err
}

// timeOf returns the time that the content of a file shows: when a snapshot was taken, or the last contact of a store
// with the server.
func timeOf(src source.Source, st source.Status) (at time.Time) {
	if file, ok := src.(*source.Snapshot); ok {
		return file.File().Manifest().TakenAt
	}
	for _, c := range st.Collections {
		if c.LastContact.After(at) {
			at = c.LastContact
		}
	}
	return at
}

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
