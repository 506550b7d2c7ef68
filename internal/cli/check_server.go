package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
)

// auditWait is how long an informer may take until it is in contact with the server, and has caught up.
const auditWait = 2 * time.Minute

// auditPatience is how long it may be without: nobody wants to watch a sync that is offline.
const auditPatience = 10 * time.Second

// serverResult is what check --against-server -o json prints.
type serverResult struct {
	Store       string           `json:"store"`
	Collections []source.Audited `json:"collections"`
}

// runAgainstServer has the sync that holds the file compare every collection with the server.
func runAgainstServer(ctx context.Context, s IO, file *fromFlag, format string) error {
	all, err := compareWithServer(ctx, s, file)
	if err != nil {
		return err
	}
	if format == "json" {
		if err := printJSON(s, serverResult{file.path, all}); err != nil {
			return err
		}
	} else if err := printAudits(s, all); err != nil {
		return err
	}
	failed, repaired := false, 0
	for _, a := range all {
		failed = failed || a.Error != ""
		repaired += a.Repaired()
	}
	if repaired > 0 {
		fmt.Fprintf(s.Err,
			"hint: what differed has been repaired; larder check --against-server says so when it is run again\n")
	}
	if failed || repaired > 0 {
		return errSilent
	}
	return nil
}

func compareWithServer(ctx context.Context, s IO, file *fromFlag) ([]source.Audited, error) {
	src, status, err := file.described(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { _ = src.Close() }() // nothing is left to say
	sync, held := src.(*source.Client)
	switch {
	case status.Snapshot != nil:
		return nil, snapshotOnly(file.path, "cannot be compared with the server")
	case !held:
		return nil, withHint(fmt.Errorf("no larder sync holds %s, and a sync compares it with the server", file.path),
			"start one, which takes in what has changed since, and ask again: %s",
			syncCommand(file.path, status.Collections, names(storedResources(status.Collections), resource.String)))
	}
	objects, least := 0, time.Duration(0)
	for _, c := range status.Collections {
		objects += c.Objects
		least += audit.MinTime(c.Objects)
	}
	fmt.Fprintf(s.Err, "comparing %s with the API server, at a gentle rate: it takes %v at least\n",
		counted(objects, "object"), least)
	return sync.Audit(ctx)
}

// Audit implements source.Holder.
func (m *mirror) Audit(ctx context.Context) (all []source.Audited, err error) {
	for _, mb := range m.now() {
		a := source.Audited{Collection: mb.identity.ID(), Resource: mb.resource.String(),
			Representation: string(mb.identity.Representation), Findings: []string{}}
		if sc := scope(source.NewCollection(store.Info{Identity: mb.identity})); sc != "all" {
			a.Scope = sc
		}
		report, err := mb.audit(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		a.Objects, a.Listed, a.More = report.Objects, report.Listed, report.More
		for _, f := range report.Findings {
			a.Findings = append(a.Findings, f.String())
		}
		if err != nil {
			a.Error = err.Error()
		}
		all = append(all, a)
	}
	return all, nil
}

// audit waits until the informer is live, and audits.
func (mb *member) audit(ctx context.Context) (audit.Report, error) {
	limited, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	for failing := time.Now(); ; {
		st := mb.informer.Status()
		if st.Source == informer.Live {
			return mb.informer.Audit(ctx)
		}
		if st.Err == nil {
			failing = time.Now()
		}
		if limited.Err() != nil || time.Since(failing) > auditPatience {
			return audit.Report{}, errors.Join(audit.ErrNotLive, st.Err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limited.Done():
		}
	}
}

func printAudits(s IO, all []source.Audited) error {
	var out strings.Builder
	for _, a := range all {
		what := a.Resource
		if a.Representation == string(entry.Metadata) {
			what += " by metadata"
		}
		if a.Scope != "" {
			what += " (" + a.Scope + ")"
		}
		for _, line := range a.Findings {
			fmt.Fprintf(&out, "%s %s\n", what, line)
		}
		if a.More > 0 {
			fmt.Fprintf(&out, "%s … and %d more\n", what, a.More)
		}
		fmt.Fprintf(&out, "%s: %s\n", what, verdict(a))
	}
	_, err := io.WriteString(s.Out, terminal.Visible(out.String()))
	return err
}

// verdict says what came of comparing a collection.
func verdict(a source.Audited) string {
	has := "the server has " + counted(a.Objects, "object")
	switch why := strings.Join(strings.Fields(a.Error), " "); {
	case why != "" && a.Objects == 0:
		return "not compared: " + why
	case why != "":
		return fmt.Sprintf("compared with the first %s of the server, not to the end: %s", counted(a.Objects, "object"), why)
	case a.Repaired() > 0:
		return fmt.Sprintf("%d repaired: %s", a.Repaired(), has)
	}
	return "ok: " + has
}
