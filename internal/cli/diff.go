package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	identity identityFlag
	selects  selectFlags
	output   outputFlag
	ignore   []string
	strict   bool
}

func newDiff(s IO) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff A B [RESOURCE…]",
		Short: "Compare two stores or snapshots, object by object",
		Long: `Compare two files, object by object: what B has that A has not is added, what A has alone is removed. Each is a snapshot, a store, or a store that
larder sync holds. Objects are the same if they are but for metadata.managedFields, resourceVersion and generation; --ignore leaves out more,
--strict nothing. An object with another UID was deleted and made again: it is replaced.

  -o table  how many objects of each resource are different
  -o name   a line for each of them: how, resource, namespace/name
  -o patch  and the JSON merge patch (RFC 7386) that makes of A's object that of B. Values of Secrets are not shown
  -o json   all that, for programs

Exits with 0 if there is no difference, 1 if there is one, and more than 1 if they could not be compared: 2 used wrongly, 3 any other error.`,
		Example: `  larder diff monday.larder cluster.db
  larder diff before.larder after.larder deploy,svc -n web -o patch
  larder diff a.larder b.larder --ignore status --ignore 'metadata.annotations["example.com/seen"]'`,
		Args: needArgs(2, -1, "two files, and perhaps resources"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return diffError(runDiff(cmd.Context(), s, &o, args))
		},
	}
	o.identity.add(cmd)
	o.selects.add(cmd)
	o.output.add(cmd, "table", "name", "patch", "json")
	cmd.Flags().StringArrayVar(&o.ignore, "ignore", nil, "leave out the field at `PATH`, as status or spec.template.spec.containers[*].image; may be given again")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "leave out nothing but what --ignore names")
	return cmd
}

// diffError has an error that is not of the command line exit with more than 1.
func diffError(err error) error {
	if err == nil || errors.Is(err, errDiffer) || exitCode(err) == exitUsage {
		return err
	}
	return codedError{err, exitNotCompared}
}

// errDiffer: there is a difference, which has been told.
var errDiffer = codedError{errSilent, exitFailed}

func runDiff(ctx context.Context, s IO, o *diffOptions, args []string) error {
	if err := errors.Join(o.output.check(), o.selects.check(), checkPaths(o.ignore)); err != nil {
		return usageError{err}
	}
	a, err := o.open(ctx, s, args[0])
	if err != nil {
		return err
	}
	defer func() { _ = a.Close() }() // it was only read
	b, err := o.open(ctx, s, args[1])
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }() // it was only read
	filter, err := o.selects.filter(args[0]+" and "+args[1], append(a.stored(), b.stored()...), args[2:])
	if err != nil {
		return orLost(b.path, orLost(a.path, err, lostOf(a.Source)), lostOf(b.Source))
	}
	all, done, err := s.counted(ctx, "comparing", b.records(), o.output.format != "table")
	if err != nil {
		return readError(args[1], err)
	}
	report, err := o.compare(ctx, s, a.records(), all, filter, done)
	if err != nil {
		return o.compareError(args, err)
	}
	for _, side := range []*compared{a, b} {
		side.tell(s, filter)
		if lost := lostOf(side.Source); lost != nil { // what the other one has alone may have been in it
			return readError(side.path, fmt.Errorf("%s: %w", side.path, lost))
		}
	}
	switch {
	case !report.Equal():
		return errDiffer
	}
	return nil
}

// checkPaths finds what is wrong with the paths of --ignore, by comparing nothing.
func checkPaths(paths []string) error {
	_, err := snapshot.Diff(context.Background(), emptySource{}, emptySource{}, snapshot.DiffOptions{Ignore: paths}, nil)
	return err
}

// emptySource has nothing.
type emptySource struct{}

func (emptySource) Collections(context.Context) ([]snapshot.Collection, error) { return nil, nil }

func (emptySource) Records(context.Context, store.Identity, string, func(store.Record) error) error {
	return snapshot.ErrNoCollection
}

// compared is one of the files.
type compared struct {
	source.Source
	path   string
	status source.Status
}

func (o *diffOptions) open(ctx context.Context, s IO, path string) (*compared, error) {
	src, err := o.identity.openPath(ctx, s, path)
	if err != nil {
		return nil, err
	}
	st, err := src.Status(ctx)
	if err != nil {
		return nil, errors.Join(readError(path, err), src.Close())
	}
	return &compared{src, path, st}, nil
}

func (c *compared) stored() []source.Collection { return slices.Clone(c.status.Collections) }

// records are those of the file; an error says what to do about this one of the two.
func (c *compared) records() snapshot.Source {
	return &comparedRecords{source.Records(c.Source), c.path}
}

// tell says what of the resources that f takes the file does not have, though the cluster had it.
func (c *compared) tell(s IO, f snapshot.Filter) {
	notePart(s, c.path, c.status.Collections, f)
	if len(f.Resources) == 0 {
		noteLeftOut(s, c.path, c.status)
	}
}

type comparedRecords struct {
	snapshot.Source
	path string
}

// Records implements snapshot.Source.
func (c *comparedRecords) Records(ctx context.Context, id store.Identity, after string, fn func(store.Record) error) error {
	err := c.Source.Records(ctx, id, after, fn)
	if err == nil || errors.As(err, new(hinted)) { // fn may have read the other one
		return err
	}
	return readError(c.path, err)
}

// compareError adds what to do, if that is not known yet.
func (o *diffOptions) compareError(args []string, err error) error {
	if errors.As(err, new(hinted)) {
		return err
	}
	return outError(args[0], err)
}

func (o *diffOptions) compare(ctx context.Context, s IO, a, b snapshot.Source, filter snapshot.Filter, done func()) (snapshot.DiffReport, error) {
	if !filter.Empty() {
		var err error
		if a, err = snapshot.Select(a, snapshot.SelectOptions{Filter: filter}); err != nil {
			return snapshot.DiffReport{}, usageError{err}
		}
		if b, err = snapshot.Select(b, snapshot.SelectOptions{Filter: filter}); err != nil {
			return snapshot.DiffReport{}, usageError{err}
		}
	}
	ignore := append([]string{}, o.ignore...)
	if !o.strict {
		ignore = append(ignore, snapshot.DefaultIgnore()...)
	}
	out := bufio.NewWriterSize(s.Out, 1<<16)
	p := newDiffPrinter(out, o.output.format)
	report, err := snapshot.Diff(ctx, a, b, snapshot.DiffOptions{Ignore: ignore, SkipUnknown: true}, p.change)
	done()
	if err == nil {
		err = p.finish(report)
	}
	return report, errors.Join(err, out.Flush())
}
