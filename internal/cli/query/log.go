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

// logOptions are the flags of log.
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
		Short: "Print what has changed in a store, or from snapshot to snapshot",
		Long: `Print what has changed, over all resources, the oldest change first.

Of a store into which larder sync --keep-changes 24h mirrors, or larder sync --serve, which keeps an hour, it prints the
objects that have changed, each once, with the last of its changes: an object that was created is added, one that is
gone is removed. The time is that at which the change was stored, to a minute. What was learned from a list may have
happened before that. Selectors look at the present state of an object, or at the last one before it was deleted.

Of several snapshots or stores it prints what has changed from each to the next, in the order of the times at which they
were taken, and which fields of each object: the old value (-) and the new one (+), as larder diff does. The time is
that of the later file.

  -o changes  a line for each object that has changed, and below it, of several files, its fields. The default
  -o name     the lines alone
  -o json     for programs, an object a line

Values of Secrets, and of whatever else a store seals, are not shown.`,
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
		"print what has changed since a `TIME`, as 2026-11-28, 2026-11-28T09:00:00Z or 2h (ago), or of one resource of a "+
			"store after a number that larder watch has printed. Default is all that is kept")
	f.StringArrayVar(&o.ignore, "ignore", nil,
		"of several files, leave out the field at `PATH`, as larder diff does; may be given again")
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
	case len(files) > 1 && since.place != nil:
		return command.Usagef("--since %s is a place in one store: of several files it has to be a time", o.since)
	case len(files) > 1:
		return o.series(ctx, s, files, args, since.at)
	case len(o.ignore) > 0:
		return command.Usagef("--ignore needs several files: what the fields of an object were is not kept in a store")
	}
	return o.ofStore(ctx, s, files[0], args, since)
}

// moment is the value of log --since: a time, or a position in a changelog. With neither, it is the beginning.
type moment struct {
	at    time.Time
	place *since
}

func parseMoment(text string, now time.Time) (moment, error) {
	if text == "" {
		return moment{}, nil
	}
	if place, err := parseSince(text); err == nil {
		return moment{place: place}, nil
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

// errNothing returns the error for a file that stores none of the selected resources.
func errNothing(path string) error { return fmt.Errorf("%s stores nothing of that", path) }
