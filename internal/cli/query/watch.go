package query

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store/consumer"
)

type watchOptions struct {
	getOptions
	since string
	// list prints the existing objects before the changes, like get -w.
	list bool
	// changes prints only the fields that changed, not whole objects.
	changes bool
}

// NewWatch returns larder watch.
func NewWatch(s command.IO) *cobra.Command {
	o := watchOptions{getOptions: getOptions{print: newPrintFlags()}}
	o.print.watched = true
	cmd := &cobra.Command{
		Use:   "watch [FILE] (RESOURCE[,RESOURCE…] [NAME] | RESOURCE/NAME…)",
		Short: "Print changes while a sync stores them, or since an earlier one",
		Long: `Print the changes in a store: live while larder sync mirrors into it, or with --since the changes
after an earlier one. No API server is needed.

Without larder sync --keep-changes, a watch prints the changes from now on. If its output is not read for half a
minute, it ends with an error: start it again.

With larder sync --keep-changes 24h, each change of a resource has a number, its seq, and a watch can resume after any
of them (--since). When a watch ends, it prints on standard error where to resume, as SEQ@FEED, which other stores and
resources reject. larder get and larder status -o json print the last seq, and -o json the seq of each event. Such a
watch reads the file, about a second later, and prints an object that changed several times only once, in its last
state.

  EVENT   ADDED     the object was created, or began to match the selector
          MODIFIED  the object changed; after --since it may also have begun to match the selector
          DELETED   the object was deleted, or no longer matches the selector; after --since it may not have matched
                    before

-o changes prints the changed fields of an object, with their old and new values. To know the old values, it reads all
objects first, and holds them in memory. Several resources (pods,deploy or all) have a table each; -o name and -o
changes print a line for each change.

Each change is printed at least once, and the changes of one object in order. A store that no larder sync holds does
not change: --since then prints the changes that it has kept, and ends. To begin with the existing objects, use larder
get -w.`,
		Example: `  larder watch pods -A --from cluster.db
  larder watch pods -n web -l app=shop --from cluster.db
  larder watch pods,deploy,cm -A -o changes --from cluster.db
  larder watch deploy -A --since 1234 -o json --from cluster.db`,
		Args: command.NeedArgs(1, -1, "a resource, and perhaps a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.eventsAsked = o.events && cmd.Flags().Changed(eventsFlag)
			return runWatch(cmd.Context(), s, &o, args)
		},
		ValidArgsFunction: o.complete,
	}
	o.addFlags(cmd)
	cmd.Flags().Lookup("from").Usage = "the `FILE` of the store to watch, also while larder sync holds it (required, or " +
		command.StoreVariable + ")"
	cmd.Flags().StringVar(&o.since, "since", "", "first print the changes after this `SEQ`")
	// The flag --sort-by exists for a better error message than "unknown flag": watch rejects it.
	_ = cmd.Flags().MarkHidden("sort-by")
	cmd.Flags().BoolVar(&o.events, eventsFlag, true,
		"print the type of each event with its object; if the flag is given, -o of templates and columns gets events, too, "+
			"as {.type} and {.object}")
	return cmd
}

func runWatch(ctx context.Context, s command.IO, o *watchOptions, args []string) error {
	if strings.EqualFold(o.print.output, formatChanges) {
		o.changes, o.print.output = true, formatTable
	}
	targets, err := o.parse(args)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if n := len(t.names); n > 1 {
			return command.Usagef("one object can be watched, or all of a resource, not %d", n)
		}
	}
	if o.print.sortBy != "" {
		return command.Usagef("--sort-by needs all objects at once: it cannot be used while changes are printed as they come")
	}
	since, err := parseSince(o.since)
	if err != nil {
		return err
	}
	src, answers, err := o.open(ctx, s, targets)
	if src == nil {
		return err
	}
	defer func() { _ = src.Close() }()
	switch {
	case err != nil:
		return err
	case since != nil && len(answers) > 1:
		return command.Usagef("--since goes on with one resource, and not with %d: each has numbers of its own", len(answers))
	}
	if o.list {
		if _, err := o.listed(answers); err != nil {
			return err
		}
	}
	chosen := answers[0]
	watcher, ok := src.(source.Watcher)
	if !ok {
		return fmt.Errorf("%s is a snapshot: it does not change", o.from.Path)
	}
	if since != nil && len(chosen.Collections) > 1 {
		return command.WithHint(fmt.Errorf("%s stores %s in several parts, and each has a seq of its own:\n%s", o.from.Path,
			chosen.Resource, input.List(chosen.Collections)),
			"choose one with --collection ID")
	}
	if since != nil {
		if err := since.of(o.from.Path, chosen.Resource, chosen.Collections[0]); err != nil {
			return err
		}
	}
	w := &watching{o: o, watcher: watcher, since: since}
	if err := w.printTo(s, answers); err != nil {
		return err
	}
	o.printAllFreshness(s, answers)
	var all []watched
	for _, a := range answers {
		if err := o.notFound(ctx, src, a); err != nil {
			return err
		}
		if err := o.noteFields(ctx, s, src, a.Choice, false); err != nil {
			return err
		}
		for _, q := range o.queries(a) {
			all = append(all, watched{q, a.Choice})
		}
	}
	o.noteOtherNamespaces(ctx, s, src, answers)
	return w.run(ctx, s, all)
}

// watched is a collection that larder watch watches, with the collections chosen for the target on the command line.
type watched struct {
	collectionQuery
	input.Choice
}

func (w *watching) printTo(s command.IO, answers []answer) (err error) {
	to := s.Out
	if w.o.changes && s.Colours {
		to = s.Terminal()
	}
	w.out = bufio.NewWriterSize(to, 1<<16)
	if w.o.changes {
		w.printer = newChangePrinter(w.out, s.Colours)
		return nil
	}
	w.printer, err = newEventPrinter(w.out, s, &w.o.getOptions, answers)
	return err
}

// notFound returns an error if get -w names an object that does not exist, because it might never be created. For an
// unreadable object it returns nil, and the watch reports the damage.
func (o *watchOptions) notFound(ctx context.Context, src source.Source, a answer) error {
	if !o.list || o.ignoreNotFound || len(a.names) == 0 || o.there(ctx, src, a) {
		return nil
	}
	return o.missing(ctx, src, a, a.names[0])
}

type watching struct {
	o       *watchOptions
	watcher source.Watcher
	since   *since

	mu      sync.Mutex
	out     *bufio.Writer // out is standard output; mu guards it
	printer eventSink     // printer prints events to out; mu guards it
}

// reached is the progress of one watch: the seq (change number) of the last event in the output buffer, and of the last
// event written to standard output.
type reached struct{ printed, written uint64 }

// run watches all collections until ctx ends, which is no error, or until a watch or the output fails.
func (w *watching) run(ctx context.Context, s command.IO, queries []watched) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	progress, failures := make([]reached, len(queries)), make([]error, len(queries))
	for i, q := range queries {
		wg.Go(func() {
			failures[i] = w.one(running, s, q, &progress[i])
			if failures[i] != nil && !errors.Is(failures[i], source.ErrNotLive) {
				cancel()
			}
		})
	}
	wg.Wait()
	output := w.flush()
	err := output
	for i, q := range queries {
		if output == nil {
			progress[i].written = progress[i].printed
		}
		w.printCursor(s, q, progress[i].written)
		switch failed := failures[i]; {
		case failed == nil, ctx.Err() != nil, running.Err() != nil && errors.Is(failed, context.Canceled):
		case errors.Is(failed, output): // a failed write to the output is reported once; another sync would not help
		case errors.Is(failed, source.ErrNotLive) && w.since != nil:
			fmt.Fprintf(s.Err, "note: no larder sync mirrors %s into %s, so nothing else will change\n", q.Resource,
				w.o.from.Path)
		default:
			err = errors.Join(err, w.explain(failed, q, progress[i].written))
		}
	}
	return err
}

// one watches one collection. at receives the seq of the last printed event.
func (w *watching) one(ctx context.Context, s command.IO, q watched, at *reached) error {
	begun := false
	list := w.o.list || w.o.changes && w.since == nil
	listed := !list
	query := source.WatchQuery{Query: q.Query, List: list}
	if w.since != nil {
		query.Since = &w.since.seq
	}
	decoder := source.NewDecoder(q.collection)
	return w.watcher.Watch(ctx, query, func(e source.Event) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if e.Type == source.Bookmark {
			if !begun {
				begun = true
				// On a file without a changelog the watch ends after the list, so no message says that the watch is running.
				if _, still := w.watcher.(*source.File); !still || e.Seq > 0 {
					fmt.Fprintln(s.Err, watchingFrom(q.Resource, e.Seq))
				}
			}
			if listed = listed || e.Listed; listed || at.printed > 0 {
				// Until the list of existing objects is complete, the watch has no value to resume from.
				at.printed = max(at.printed, e.Seq)
			}
			if err := w.flush(); err != nil {
				return err
			}
			at.written = at.printed
			return nil
		}
		object, err := decoder.Decode(e.Entry)
		if err != nil {
			return err
		}
		if err := w.printEvent(q, e, object, listed); err != nil {
			return err
		}
		at.printed = max(at.printed, e.Seq)
		return nil
	})
}

// printEvent prints an event. -o changes prints the existing objects only if the user asked for them, but compares
// later states with them.
func (w *watching) printEvent(q watched, e source.Event, object *unstructured.Unstructured, listed bool) error {
	if p, ok := w.printer.(*changePrinter); ok && !listed && !w.o.list {
		p.note(q, e.Type, object)
		return nil
	}
	return w.printer.print(q, e.Type, e.Seq, object)
}

// flush writes the buffered output. After a failed write it returns the same error each time.
func (w *watching) flush() error {
	if err := w.printer.flush(); err != nil {
		return err
	}
	return w.out.Flush()
}

// watchingFrom returns the message that the watch has begun and will miss no change after seq.
func watchingFrom(r input.Resource, seq uint64) string {
	if seq == 0 {
		return fmt.Sprintf("%s: watching", r)
	}
	return fmt.Sprintf("%s: watching from seq %d", r, seq)
}

func (w *watching) printCursor(s command.IO, q watched, reached uint64) {
	c := q.collection
	switch {
	case reached == 0:
	case len(q.Collections) > 1:
		fmt.Fprintf(s.Err, "%s (%s): go on with --collection %s --since %s\n", q.Resource, input.Scope(c), c.ID,
			cursorOf(c, reached))
	default:
		fmt.Fprintf(s.Err, "%s: go on with --since %s\n", q.Resource, cursorOf(c, reached))
	}
}

func (w *watching) explain(err error, q watched, reached uint64) error {
	path, c := w.o.from.Path, q.collection
	var gone *consumer.SinceError
	switch {
	case errors.Is(err, source.ErrNotLive):
		return command.WithHint(fmt.Errorf("%s does not change: no larder sync mirrors %s into it", path, q.Resource),
			"start one with: %s", input.SyncCommand(path, []source.Collection{c}, q.Resource.String()))
	case errors.Is(err, consumer.ErrNotKept):
		return command.WithHint(command.Reworded(consumer.ErrNotKept,
			"%s does not keep what changes of %s, so --since has nothing to begin with", path, q.Resource),
			"larder sync --keep-changes 24h keeps it from then on; secrets that are in memory only have none")
	case errors.As(err, &gone):
		return command.WithHint(fmt.Errorf("%s: %w", q.Resource, gone), startOver, q.Resource, path)
	case reached > 0:
		return command.WithHint(err, "go on with --since %s once a larder sync mirrors it", cursorOf(c, reached))
	case errors.Is(err, source.ErrSlow), errors.Is(err, source.ErrStopping), errors.Is(err, source.ErrSilent):
		return command.WithHint(err, "start over; larder sync --keep-changes 24h keeps what changes meanwhile")
	}
	return input.ReadError(path, err)
}

// since is the value of --since: a seq, which is the number of a change in a changelog. A value that a watch has
// printed also has the ID of the changelog.
type since struct {
	text string
	seq  uint64
	feed string
}

// startOver is the hint to watch from the beginning. Its arguments are the resource and the store.
const startOver = "start over with: larder get %s -w --from %s"

func parseSince(text string) (*since, error) {
	if text == "" {
		return nil, nil
	}
	number, feed, ofFeed := strings.Cut(text, "@")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || ofFeed && feed == "" {
		return nil,
			command.Usagef(
				"--since %q: it must be a number, as larder watch and larder get print it, or what larder watch says to go on with",
				text)
	}
	return &since{text, seq, feed}, nil
}

// of fails if the value of --since names another changelog than that of the collection. A value without a changelog ID
// is accepted.
func (s *since) of(path string, r input.Resource, c source.Collection) error {
	if s.feed == "" || c.Changes == nil || c.Changes.Feed == s.feed {
		return nil
	}
	return command.WithHint(
		fmt.Errorf(
			"--since %s is not of the %s of %s: it was printed for another resource or store, or before this one was made anew",
			s.text, r, path),
		startOver, r, path)
}

func cursorOf(c source.Collection, seq uint64) string {
	cursor := strconv.FormatUint(seq, 10)
	if c.Changes != nil && c.Changes.Feed != "" {
		cursor += "@" + c.Changes.Feed
	}
	return cursor
}
