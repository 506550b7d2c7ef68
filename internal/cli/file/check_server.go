package file

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
)

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
