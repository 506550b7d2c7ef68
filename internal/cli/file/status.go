package file

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
)

// NewStatus returns larder status.
func NewStatus(s command.IO) *cobra.Command {
	var file input.FromFlag
	var output command.OutputFlag
	cmd := &cobra.Command{
		Use:   "status [FILE]",
		Short: "Print the collections of a store or snapshot, and their age",
		Long: `Print the collections of a store or snapshot, and their age. Needs no API server.

  RV      the resourceVersion of the objects, from which the next sync resumes
  AGE     how long ago the server last confirmed the objects as its present state, or changed them
  STATE   stored   in the file; no sync mirrors it now
          live     mirrored now, in contact with the server
          offline  mirrored now, without contact for that long: the objects are from the file
          behind   mirrored now, but the file cannot be written: the objects are from the last commit
          listed, cannot be watched  mirrored now by a list every 30 to 60 seconds, because the server refuses watches
          must relist  the next list has not ended: until then objects may be missing, or older than others
          waiting  mirrored now; the first list is not complete yet
          forbidden  the API server answers 403: retried until it allows list and watch; stored objects stay
                   readable, with their age. It delays readiness only if the resource was named
          left out objects that the storing program refused (a transform, an index function or a codec failed, or the
                   name is longer than 16 KiB): they are missing, or older than the server's, until a mended program
                   starts; -o json names them
          snapshot in a snapshot, which does not change; its omissions follow
          typed, metadata    stored by a Go program as Kubernetes' Go types, or as metadata alone

The line Error says why the file cannot be written: it is full, the disk fails, or another file was moved in its place
(replaced). Once another file has been copied over it, status fails with that error until the sync has ended.

The line Serve is printed for a sync with --serve: how much of --serve-memory its responses hold, and how many requests
were refused with 429 because slow clients had used it up.

A second table lists the durable handlers that keep a position in the file.

  BEHIND   the largest possible number of changes that it has not acknowledged
  FAILING  the number of keys that were delivered to it and not acknowledged
`,
		Args: command.MaxOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.OnlyFile(&file.Path, "from", args); err != nil {
				return err
			}
			if err := errors.Join(file.Check(), output.Check()); err != nil {
				return command.Usage(err)
			}
			return runStatus(cmd.Context(), s, &file, output.Format)
		},
		ValidArgsFunction: command.CompleteFile,
	}
	file.Add(cmd)
	output.Add(cmd, "table", "json")
	return cmd
}

func runStatus(ctx context.Context, s command.IO, file *input.FromFlag, format string) error {
	src, status, err := file.Described(ctx, s)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	if format == "json" {
		return command.PrintJSON(s, status)
	}
	return printStatus(s, status)
}

func printStatus(s command.IO, status source.Status) error {
	printWhat(s, status)
	if len(status.Collections) == 0 {
		_, err := fmt.Fprintln(s.Out, "\nNo collections.")
		return err
	}
	fmt.Fprintln(s.Out)
	t := terminal.NewTable(s.Terminal(), "RESOURCE", "SCOPE", "OBJECTS", "RV", "AGE", "STATE", "ID")
	if s.Colours {
		t.Paint(5, colourOfState)
	}
	for _, c := range status.Collections {
		r := c.Named()
		t.Row(r.String(), input.Scope(c), strconv.Itoa(c.Objects), command.OrDash(c.ResourceVersion),
			command.AgeOf(s.Now(), c.LastContact), input.State(s.Now(), c), c.ID)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	printErrors(s, status.Collections)
	if err := printHandlers(s, status.Collections); err != nil {
		return err
	}
	hintForbidden(s, status.Collections)
	hintPlainText(s, status.Store, status.Collections)
	return nil
}

func printErrors(s command.IO, all []source.Collection) {
	errs := input.Errors(all)
	if len(errs) > 0 {
		fmt.Fprintln(s.Out)
	}
	for _, e := range errs {
		fmt.Fprintf(s.Out, "Error of %s: %s\n", input.Some(e.Of), terminal.OneLine(e.Text))
	}
}

func hintForbidden(s command.IO, all []source.Collection) {
	for _, c := range all {
		if input.Forbidden(c) {
			fmt.Fprintf(s.Err, "hint: larder sync needs the verbs list and watch: %s\n", c.Live.Forbidden)
			return
		}
	}
}

func hintPlainText(s command.IO, path string, all []source.Collection) {
	if slices.ContainsFunc(all, func(c source.Collection) bool { return c.PlainText }) {
		fmt.Fprintf(s.Err,
			"hint: larder compact --rekey --store %s --key-file FILE seals what was stored before there was a key\n", path)
	}
}

func printWhat(s command.IO, status source.Status) {
	if status.Snapshot != nil {
		printSnapshot(s, status)
		return
	}
	fmt.Fprintf(s.Out, "Store:  %s, %s, %s of it free\n", status.Store, command.Size(status.Bytes),
		command.Size(status.FreeBytes))
	if status.Sync == nil {
		fmt.Fprintln(s.Out, "Sync:   none is running")
		return
	}
	fmt.Fprintf(s.Out, "Sync:   process %d, larder %s, running for %s, %s written to the file\n",
		status.Sync.PID, status.Sync.Version, command.AgeOf(s.Now(), status.Sync.Started), command.Size(status.WrittenBytes))
	if status.Error != "" {
		fmt.Fprintf(s.Out, "Error:  %s\n", status.Error)
	}
	if m := status.ServeMemory; m != nil {
		fmt.Fprintf(s.Out, "Serve:  %s of %s memory for answers in use", command.Size(m.UsedBytes), command.Size(m.Bytes))
		if m.Refused > 0 {
			fmt.Fprintf(s.Out, "; %d requests refused since it was spent", m.Refused)
		}
		fmt.Fprintln(s.Out)
	}
	switch {
	case status.Sync.Metrics != "":
		fmt.Fprintf(s.Out, "Health: http://%s/readyz and /healthz; metrics: %s\n", status.Sync.Listen, status.Sync.Metrics)
	case status.Sync.Listen != "":
		fmt.Fprintf(s.Out, "Health: http://%s/readyz, and /healthz and /metrics\n", status.Sync.Listen)
	}
}

func printHandlers(s command.IO, collections []source.Collection) error {
	var rows [][]string
	for _, c := range collections {
		for _, h := range c.Handlers {
			behind := strconv.FormatUint(h.Behind, 10)
			if h.Replaying {
				behind = "everything"
			}
			rows = append(rows, []string{h.Name, c.Named().String(), input.Scope(c), behind, strconv.Itoa(h.Failing)})
		}
	}
	return furtherTable(s, rows, "HANDLER", "RESOURCE", "SCOPE", "BEHIND", "FAILING")
}

func furtherTable(s command.IO, rows [][]string, headers ...string) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(s.Out)
	t := terminal.NewTable(s.Out, headers...)
	for _, row := range rows {
		t.Row(row...)
	}
	return t.Flush()
}

// colourOfState returns the colour of a table cell in the columns STATE and SOURCE.
func colourOfState(state string) terminal.Colour {
	word, more, _ := strings.Cut(state, ",")
	first, _, _ := strings.Cut(word, " ")
	switch {
	case strings.Contains(more, "incomplete"), strings.Contains(more, "must relist"), strings.Contains(more, "anew"):
		return terminal.Red
	case first == "live":
		return terminal.Green
	case first == "offline", first == "forbidden", first == "connecting", first == "waiting", first == "stale",
		first == "listed":
		return terminal.Yellow
	}
	return ""
}

func printSnapshot(s command.IO, status source.Status) {
	about := status.Snapshot
	what := "a snapshot"
	if about.Encrypted {
		what = "an encrypted snapshot"
	}
	fmt.Fprintf(s.Out, "Snapshot:  %s, %s in format %d, %s\n", status.Store, what, about.Format,
		command.Size(status.Bytes))
	taken := "at an unknown time"
	if !about.TakenAt.IsZero() {
		taken = about.TakenAt.UTC().Format(time.RFC3339) + ", " + command.AgeOf(s.Now(), about.TakenAt) + " ago"
	}
	if about.Larder != "" {
		taken += ", by larder " + terminal.OneLine(about.Larder)
	}
	fmt.Fprintf(s.Out, "Taken:     %s\n", taken)
	var cluster []string
	if about.ClusterID != "" {
		cluster = append(cluster, terminal.OneLine(about.ClusterID))
	}
	if about.ServerVersion != "" {
		cluster = append(cluster, "server "+terminal.OneLine(about.ServerVersion))
	}
	if len(cluster) == 0 {
		cluster = []string{"unknown"}
	}
	fmt.Fprintf(s.Out, "Cluster:   %s\n", strings.Join(cluster, ", "))
	for _, left := range about.LeftOut {
		fmt.Fprintf(s.Out, "Left out:  %s\n", terminal.OneLine(left))
	}
}
