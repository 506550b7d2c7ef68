package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

type checkResult struct {
	Store        string `json:"store"`
	Collections  int    `json:"collections"`
	Objects      int    `json:"objects"`
	IndexEntries int    `json:"indexEntries"`
	// Sealed is the number of objects that were not decrypted, and so not checked, because no key was given.
	Sealed int `json:"sealed,omitempty"`
	// LeftOut is the number of objects that are not stored because a transform, an index function or a codec refused them.
	// LeftOutMore says that the number may be higher.
	LeftOut     int      `json:"leftOut,omitempty"`
	LeftOutMore bool     `json:"leftOutMore,omitempty"`
	Problems    []string `json:"problems"`
}

// NewCheck returns larder check.
func NewCheck(s command.IO) *cobra.Command {
	var file input.FromFlag
	var output command.OutputFlag
	var againstServer bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Verify every record and index of a store or snapshot",
		Long: `Verify a store: the checksum of every record, every index entry in both directions, counts, and the
resourceVersion. Verify a snapshot: the digest of every block, the index, counts, and every object. Exits with 1 if
there is a problem.

With --against-server, the larder sync that holds the store compares the UID and resourceVersion of every object with
the API server's, by rate-limited lists of metadata, and repairs differences, also in the file. Differences arise when
a proxy drops an event, a server is restored from a backup, or a record is lost. Exits with 1 if there was a
difference. Go programs compare their own stores with Audit or AuditEvery of their informers.`,
		Args: command.MaxOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.OnlyFile(&file.Path, "from", args); err != nil {
				return err
			}
			if err := errors.Join(file.Check(), output.Check()); err != nil {
				return command.Usage(err)
			}
			if againstServer {
				return command.IfInterrupted(cmd.Context(), runAgainstServer(cmd.Context(), s, &file, output.Format),
					"not everything was compared; what was found to differ until then is repaired")
			}
			return command.IfInterrupted(cmd.Context(), runCheck(cmd.Context(), s, &file, output.Format),
				"not everything was verified")
		},
		ValidArgsFunction: command.CompleteFile,
	}
	file.Add(cmd)
	output.Add(cmd, "text", "json")
	cmd.Flags().BoolVar(&againstServer, "against-server", false,
		"make the larder sync that holds the store compare it with the API server, and repair differences")
	return cmd
}

func runCheck(ctx context.Context, s command.IO, file *input.FromFlag, format string) error {
	path := file.Path
	report, stored, isSnapshot, err := check(ctx, s, file)
	hint := "the next larder sync repairs " + path + " itself: it keeps what is good and asks the server for the rest"
	switch {
	case errors.Is(err, entry.ErrDamaged):
		// A file that is too damaged to be opened is a problem in the report, not an error of the command.
		report.Problems = append(report.Problems, err.Error())
		hint = "the next larder sync moves " + path + " aside, and keeps what can be read"
	case errors.Is(err, snapshot.ErrDamaged):
		report.Problems = append(report.Problems, err.Error())
		hint = input.DamagedHint(path)
	case err != nil:
		return err
	case isSnapshot:
		hint = input.DamagedHint(path) + "; larder get and larder snapshot export read what is whole, and say what is not"
	}
	if format == "json" {
		r := checkResult{path, report.Collections, report.Objects, report.IndexEntries, report.Sealed, report.LeftOut,
			report.LeftOutMore, report.Problems}
		if r.Problems == nil {
			r.Problems = []string{}
		}
		if err := command.PrintJSON(s, r); err != nil {
			return err
		}
	} else if err := printReport(s, path, report); err != nil {
		return err
	}
	if report.Sealed > 0 {
		fmt.Fprintf(s.Err, "note: without a key no more than the checksum of %s could be verified\nhint: %s\n",
			command.CountedAs(report.Sealed, "sealed object", "sealed objects"), input.NameKey(path, input.ByFlag))
	}
	notePlainText(s, path, stored)
	noteLeftOut(s, path, report)
	if len(report.Problems) > 0 {
		fmt.Fprintln(s.Err, "hint:", hint)
		return command.ErrSilent
	}
	return nil
}

func notePlainText(s command.IO, path string, all []source.Collection) {
	for _, c := range all {
		if c.PlainText {
			fmt.Fprintf(s.Err, "note: %s: what was stored before there was a key is legible in the file\n", input.Label(c))
		}
	}
	hintPlainText(s, path, all)
}

func check(
	ctx context.Context, s command.IO, file *input.FromFlag,
) (report store.Report, stored []source.Collection, isSnapshot bool, err error) {
	src, err := file.Open(ctx, s)
	if err != nil {
		return report, nil, false, err
	}
	defer func() { _ = src.Close() }()
	_, isSnapshot = src.(*source.Snapshot)
	done := s.Busy("checking")
	report, err = src.Check(ctx)
	done()
	if st, statusErr := src.Status(ctx); statusErr == nil {
		stored = st.Collections
	}
	return report, stored, isSnapshot, err
}

func printReport(s command.IO, path string, r store.Report) error {
	var b strings.Builder
	for _, p := range r.Problems {
		fmt.Fprintln(&b, terminal.OneLine(fmt.Sprint(p)))
	}
	verdict := "ok"
	if n := len(r.Problems); n > 0 {
		verdict = command.Counted(n, "problem")
	}
	fmt.Fprintf(&b, "%s: %s: %s, %s", path, verdict, command.Counted(r.Collections, "collection"),
		command.Counted(r.Objects, "object"))
	if !input.IsSnapshot(path) { // only a store has indexes to check
		fmt.Fprintf(&b, ", %s", command.CountedAs(r.IndexEntries, "index entry", "index entries"))
	}
	fmt.Fprintln(&b)
	_, err := io.WriteString(s.Out, b.String())
	return err
}

// noteLeftOut prints a note about objects that are not in the store because a transform or an index function refused
// them. The store is not damaged.
func noteLeftOut(s command.IO, path string, r store.Report) {
	if r.LeftOut == 0 && !r.LeftOutMore {
		return
	}
	many := command.Counted(r.LeftOut, "object")
	if r.LeftOutMore {
		many = "more than " + many
	}
	fmt.Fprintf(s.Err,
		"note: %s the server has and the store lacks, or holds in an older state: a transform, an index function "+
			"or a codec refused them, or their names are too long\n"+
			"hint: larder status --from %s says where; mended, the program that stores them gets them "+
			"again when it starts\n", many, path)
}

type serverResult struct {
	Store       string           `json:"store"`
	Collections []source.Audited `json:"collections"`
}

func runAgainstServer(ctx context.Context, s command.IO, file *input.FromFlag, format string) error {
	all, err := compareWithServer(ctx, s, file)
	if err != nil {
		return err
	}
	if format == "json" {
		if err := command.PrintJSON(s, serverResult{file.Path, all}); err != nil {
			return err
		}
	} else if err := printAudits(s, all); err != nil {
		return err
	}
	failed, differ, repaired := false, 0, 0
	for _, a := range all {
		failed = failed || a.Error != ""
		if differ += a.Differ; a.Listed {
			repaired += a.Differ
		}
	}
	if repaired > 0 {
		fmt.Fprintf(s.Err,
			"hint: what differed has been repaired; larder check --against-server says so when it is run again\n")
	}
	if failed || differ > 0 {
		return command.ErrSilent
	}
	return nil
}

func compareWithServer(ctx context.Context, s command.IO, file *input.FromFlag) ([]source.Audited, error) {
	src, status, err := file.Described(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { _ = src.Close() }()
	sync, held := src.(*source.Client)
	switch {
	case status.Snapshot != nil:
		return nil, input.SnapshotOnly(file.Path, "cannot be compared with the server")
	case !held:
		return nil, command.WithHint(fmt.Errorf("no larder sync holds %s, and a sync compares it with the server", file.Path),
			"start one, which takes in what has changed since, and ask again: %s",
			input.SyncCommand(file.Path, status.Collections,
				input.Names(input.StoredResources(status.Collections), input.Resource.String)))
	}
	objects, least := 0, time.Duration(0)
	for _, c := range status.Collections {
		objects += c.Objects
		least += audit.MinTime(c.Objects)
	}
	fmt.Fprintf(s.Err, "comparing %s with the API server, at a gentle rate: it takes %v at least\n",
		command.Counted(objects, "object"), least)
	return sync.Audit(ctx)
}

func printAudits(s command.IO, all []source.Audited) error {
	var out strings.Builder
	for _, a := range all {
		what := a.Resource
		if a.Representation == string(entry.Metadata) {
			what += " by metadata"
		}
		if a.Scope != "" {
			what += " (" + a.Scope + ")"
		}
		fmt.Fprintf(&out, "%s: %s\n", what, verdict(a))
	}
	_, err := io.WriteString(s.Out, terminal.Visible(out.String()))
	return err
}

func verdict(a source.Audited) string {
	has := "the server has " + command.Counted(a.Objects, "object")
	keys := strings.Join(a.Keys, ", ")
	if more := a.Differ - len(a.Keys); more > 0 {
		keys += fmt.Sprintf(" and %d more", more)
	}
	switch why := strings.Join(strings.Fields(a.Error), " "); {
	case why != "" && a.Objects == 0:
		return "not compared: " + why
	case a.Differ > 0 && !a.Listed:
		return fmt.Sprintf("%d differ and are not repaired yet: %s: %s", a.Differ, keys, cmp.Or(why, "no list has ended"))
	case why != "":
		return fmt.Sprintf("compared with the first %s of the server, not to the end: %s",
			command.Counted(a.Objects, "object"), why)
	case a.Differ > 0:
		return fmt.Sprintf("%d repaired: %s; %s", a.Differ, keys, has)
	}
	return "ok: " + has
}
