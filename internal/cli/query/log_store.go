package query

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot/diff"
	"github.com/larder-dev/larder/store/consumer"
)

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
