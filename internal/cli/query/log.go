package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/config"
)

type logOptions struct {
	identity input.IdentityFlag
	selects  input.SelectFlags
	output   command.OutputFlag
	since    string
	ignore   []string
}

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
