package query

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/compare"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/snapshot/diff"
)

type diffOptions struct {
	identity input.IdentityFlag
	selects  input.SelectFlags
	output   command.OutputFlag
	ignore   []string
	strict   bool
}

// NewDiff returns larder diff.
func NewDiff(s command.IO) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff A B [RESOURCE[/NAME]…]",
		Short: "Compare two stores or snapshots, object by object",
		Long: `Compare two files, object by object. Each is a snapshot, a store, or a store that larder sync holds.
An object only in B is added, one only in A is removed, and one with another UID is replaced: it was deleted and
created again. metadata.managedFields, resourceVersion and generation are not compared; --ignore excludes more fields,
and --strict compares these three, too.

If one of the files has only a part of a resource (a namespace, or the objects that match a selector), only that part
is compared, and a note says so. A resource that only one of the files stores is a difference; a note names it, and
its objects are not counted. Name the resources to compare to avoid that. A note also says if a file is incomplete.
Sealed objects are compared with the key (--key-file); without the key the rest is compared, and diff exits with 3.

  -o changes  each object that differs, and its fields that differ: the old value (-) and the new one (+). The default
  -o name     a line for each object that differs: how, resource, namespace/name
  -o json     for programs, with counts, and the JSON merge patch (RFC 7386) from A's object to B's

Values of Secrets, and of other resources that a store seals, are not shown. List items that have a name are matched
by it, in any order.

Exits with 0 if there is no difference, 1 if there is one, and more than 1 if the files could not be compared: 2 for
wrong usage, 3 for any other error.`,
		Example: `  larder diff monday.larder cluster.db
  larder diff before.larder after.larder deploy,svc -n web
  larder diff before.larder after.larder deploy/web
  larder diff a.larder b.larder --ignore status --ignore 'metadata.annotations["example.com/seen"]'`,
		Args: command.NeedArgs(2, -1, "two files, and perhaps resources"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return diffError(runDiff(cmd.Context(), s, &o, args))
		},
		ValidArgsFunction: input.CompleteFiles(2,
			func(args []string) input.FromFlag { return input.FromFlag{Path: args[0], IdentityFlag: o.identity} }),
	}
	o.identity.Add(cmd)
	o.selects.Add(cmd)
	o.output.Add(cmd, "changes", "name", "json")
	cmd.Flags().StringArrayVar(&o.ignore, "ignore", nil,
		"exclude the field at `PATH`, such as status or spec.template.spec.containers[*].image; may be given again")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "exclude only the fields of --ignore")
	return cmd
}

func (o *diffOptions) open(ctx context.Context, s command.IO, name, path string) (*compare.Side, error) {
	src, st, err := o.identity.DescribePath(ctx, s, path)
	if err != nil {
		return nil, err
	}
	key, err := o.identity.Key.Encryption()
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return compare.NewSide(name, path, src, st, key != nil), nil
}

// diffError gives every error except wrong usage the exit code 3, because diff exits with 1 if it finds a difference.
func diffError(err error) error {
	if err == nil || errors.Is(err, errDiffer) || command.ExitCode(err) == command.UsedWrongly {
		return err
	}
	return command.Coded(err, command.NotCompared)
}

// errDiffer makes larder diff exit with 1 after it has printed differences.
var errDiffer = command.Coded(command.ErrSilent, command.Failed)

func runDiff(ctx context.Context, s command.IO, o *diffOptions, args []string) error {
	if err := errors.Join(o.output.Check(), o.selects.Check(), checkPaths(o.ignore)); err != nil {
		return command.Usage(err)
	}
	a, err := o.open(ctx, s, "A", args[0])
	if err != nil {
		return err
	}
	defer func() { _ = a.Source.Close() }()
	b, err := o.open(ctx, s, "B", args[1])
	if err != nil {
		return err
	}
	defer func() { _ = b.Source.Close() }()
	filter, names, err := o.filter(a, b, args[2:])
	if err != nil {
		return err
	}
	if err := unlistedError(filter, a, b); err != nil {
		return err
	}
	report, err := o.compare(ctx, s, a, b, filter, names)
	if err != nil {
		return compareError(err)
	}
	if err := sealedError(filter, a, b); err != nil {
		return err
	}
	if !report.Equal() {
		return errDiffer
	}
	return nil
}

// unlistedError returns the error for a resource named on the command line if the first list of its collection was
// never completed.
func unlistedError(asked snapshot.Filter, sides ...*compare.Side) error {
	var errs []error
	for _, side := range sides {
		named := slices.DeleteFunc(slices.Clone(side.Status.Collections), func(c source.Collection) bool {
			return len(asked.Resources) == 0 || !asked.Takes(c.Saved())
		})
		errs = append(errs, input.UnlistedError(side.Path, named))
	}
	return errors.Join(errs...)
}

// sealedError returns the error for requested resources that could not be compared, because a file holds them encrypted
// and no key was given.
func sealedError(asked snapshot.Filter, sides ...*compare.Side) error {
	for _, side := range sides {
		if sealed := side.SealedOf(asked); len(sealed) > 0 {
			what := input.Names(input.StoredResources(sealed), input.Resource.String)
			return command.WithHint(fmt.Errorf("%s of %s are sealed, and were not compared: no key was given", what, side.Path),
				"%s",
				input.NameKey(side.Path, input.ByFlag))
		}
	}
	return nil
}

func checkPaths(paths []string) error {
	return diff.Options{Ignore: paths}.Validate()
}

// filter returns the filter for the arguments and flags of diff. A resource may be in only one of the files.
func (o *diffOptions) filter(a, b *compare.Side, args []string) (snapshot.Filter, input.ObjectNames, error) {
	stored := slices.Concat(a.Status.Collections, b.Status.Collections)
	for _, arg := range input.SplitArgs(args) {
		arg, _, _ = strings.Cut(arg, "/")
		if len(input.NamedBy(arg, a.Status.Collections, b.Status.Collections)) > 0 {
			continue
		}
		holds := "both are empty"
		if known := input.StoredResources(stored); len(known) > 0 {
			holds = "they have " + input.Names(known, input.Resource.String)
		}
		return snapshot.Filter{}, nil, fmt.Errorf("neither %s nor %s has a resource %q: %s", a.Path, b.Path, arg, holds)
	}
	return o.selects.FilterObjects(a.Path, args, a.Status.Collections, b.Status.Collections)
}

func compareError(err error) error {
	var of *compare.SideError
	if errors.As(err, &of) {
		return input.DecodeError(of.Path, err)
	}
	return err
}

func (o *diffOptions) compare(
	ctx context.Context, s command.IO, a, b *compare.Side, filter snapshot.Filter, names input.ObjectNames,
) (diff.Report, error) {
	compare.SkipSealed(a, b, filter)
	counted, done, err := s.Counted(ctx, "comparing", b, true)
	if err != nil {
		return diff.Report{}, err
	}
	defer done()
	ignore := append([]string{}, o.ignore...)
	if !o.strict {
		ignore = append(ignore, diff.DefaultIgnore()...)
	}
	to := s.Out
	if s.Colours && o.output.Format == "changes" {
		to = s.Terminal()
	}
	out := bufio.NewWriterSize(to, 1<<16)
	p := newDiffPrinter(out, o.output.Format, s.Colours, func(id entry.Identity) []string {
		return slices.Concat(a.Gap(id), b.Gap(id))
	})
	report, err := compare.Run(ctx, a, b, compare.Options{Filter: filter, Names: names,
		Ignore: ignore, Counted: counted}, p.change)
	done()
	if err == nil {
		err = p.finish(report)
	}
	if err = command.Flushed(err, out); err == nil {
		compare.PrintParts(s, a, b, report, filter)
		o.noteNothing(s, report, filter, sealedError(filter, a, b) != nil)
	}
	return report, err
}

// noteNothing prints a note if the arguments and flags select no objects. sealed says that an error about encrypted
// resources replaces the note.
func (o *diffOptions) noteNothing(s command.IO, r diff.Report, asked snapshot.Filter, sealed bool) {
	if !asked.Empty() && r.Equal() && r.Same == 0 && !sealed {
		fmt.Fprintln(s.Err, "note: no object of A or B is selected: nothing was compared")
	}
}
