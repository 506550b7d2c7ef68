package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/internal/cli/terminal"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// auditWait is how long an informer may take until it is in contact with the server, and has caught up.
const auditWait = 2 * time.Minute

// auditPatience is how long it may be without: nobody wants to watch a sync that is offline.
const auditPatience = 10 * time.Second

// serverCheck are the flags of check --against-server.
type serverCheck struct {
	asked   bool
	cluster *clusterFlags
}

func (o *serverCheck) add(cmd *cobra.Command) {
	o.cluster = newConfigFlags()
	cmd.Flags().BoolVar(&o.asked, "against-server", false,
		"compare the objects with those of the API server too, and repair what differs")
	o.cluster.AddFlags(cmd.Flags())
}

// serverResult is what check --against-server -o json prints.
type serverResult struct {
	Store       string           `json:"store"`
	Collections []source.Audited `json:"collections"`
}

// run compares every collection of the file with the server, or has the sync that holds the file do it.
func (o *serverCheck) run(ctx context.Context, s IO, file *fromFlag, format string) error {
	all, err := o.audit(ctx, s, file)
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
	failed, compared, repaired := false, 0, 0
	for _, a := range all {
		if a.Skipped == "" {
			compared++
		}
		failed = failed || a.Error != ""
		repaired += a.Repaired()
	}
	if repaired > 0 {
		fmt.Fprintf(s.Err,
			"hint: what differed has been repaired; larder check --against-server says so when it is run again\n")
	}
	switch {
	case failed, repaired > 0:
		return errSilent
	case compared == 0 && len(all) > 0:
		return errors.New("nothing was compared")
	}
	return nil
}

func (o *serverCheck) audit(ctx context.Context, s IO, file *fromFlag) ([]source.Audited, error) {
	path := file.path
	src, err := file.open(ctx, s)
	if err != nil {
		return nil, err
	}
	if _, ok := src.(*source.Snapshot); ok {
		return nil, errors.Join(snapshotOnly(path, "cannot be compared with the server"), src.Close())
	}
	announce(ctx, s, src, path)
	if held, ok := src.(*source.Client); ok {
		defer func() { _ = src.Close() }() // nothing is left to say
		return held.Audit(ctx)
	}
	if err := src.Close(); err != nil {
		return nil, err
	}
	config, err := clientConfig(o.cluster)
	if err != nil {
		return nil, err
	}
	encryption, err := file.key.encryption()
	if err != nil {
		return nil, err
	}
	return auditFile(ctx, s, config, path, encryption)
}

// announce says how much there is to compare, and who does it, if that is not this process.
func announce(ctx context.Context, s IO, src source.Source, path string) {
	status, err := src.Status(ctx)
	if err != nil {
		return // whoever compares will say so
	}
	objects, least := 0, time.Duration(0)
	for _, c := range status.Collections {
		objects += c.Objects
		least += audit.MinTime(c.Objects)
	}
	fmt.Fprintf(s.Err, "comparing %s with the API server, at a gentle rate: it takes %v at least\n",
		counted(objects, "object"), least)
	if status.Sync != nil {
		fmt.Fprintf(s.Err,
			"note: the larder sync that holds %s (process %d) does it, with its own connection: none that is named here is "+
				"used\n", path, status.Sync.PID)
	}
}

// auditFile runs the informers of a sync for as long as it takes.
func auditFile(
	ctx context.Context, s IO, config *rest.Config, path string, encryption *seal.Encryption,
) (all []source.Audited, err error) {
	// what becomes of the file is said; the rest is in the results
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(s.Err)))
	ctx = klog.NewContext(ctx, logr.Discard())
	st, err := openForSync(ctx, path, lockWait, store.Options{Logger: &logger, Encryption: encryption, ForgetAfter: -1})
	if err != nil {
		return nil, err
	}
	m := newMirror(st)
	defer func() { err = errors.Join(err, m.Close()) }()
	infos, err := st.Collections(ctx)
	if err != nil {
		return nil, err
	}
	var stored []store.Info // of the members
	for _, info := range infos {
		if why := notAudited(info); why != "" {
			all = append(all, auditedOf(info.Identity, resource{info.Identity.GroupVersionResource, info.Resource}, why))
			continue
		}
		conn, err := connect(config)
		if err != nil {
			return nil, err
		}
		p := planned{resource: resource{info.Identity.GroupVersionResource, info.Resource}, identity: info.Identity,
			conn: conn}
		if err := p.reach(ctx); err != nil {
			return nil, err
		}
		kept, err := st.Kept(ctx, info.Identity)
		if err != nil {
			return nil, err
		}
		// Secrets that are in the file are there already, and what a sync keeps of the changes stays kept.
		mb, err := newMember(ctx, st, p, memberOptions{persistSecrets: true, keepChanges: kept.For})
		if err != nil {
			return nil, err
		}
		m.members = append(m.members, mb)
		stored = append(stored, info)
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.run(running) }) // what stops it is in the results
	audited, err := m.Audit(ctx)
	for i, mb := range m.members {
		mb.noteTakenIn(s, stored[i])
	}
	stop()
	wg.Wait()
	return append(audited, all...), err
}

// noteTakenIn says what the informer has caught up with since the file was written, which is not compared: it could
// only be equal.
func (mb *member) noteTakenIn(s IO, before store.Info) {
	if now := mb.informer.Status().ResourceVersion; now != "" && now != before.ResourceVersion {
		fmt.Fprintf(s.Err, "note: %s: what changed from resourceVersion %s to %s, if anything, was taken in first\n",
			mb.resource, before.ResourceVersion, now)
	}
}

// notAudited is why a collection cannot be compared here; empty if it can. An informer that would store the objects
// otherwise than they are would not compare them but list them all, and the program whose they are would have to list
// them again.
func notAudited(info store.Info) string {
	why := ""
	switch codec, err := codec.For(exampleOf(planned{identity: info.Identity})); {
	case !info.Complete:
		return "its first list has not been finished: nothing can be missing yet"
	case info.Identity.Representation == entry.Typed:
		why = "typed"
	case info.Attributes.Transform != "":
		why = fmt.Sprintf("through a transform, version %q", info.Attributes.Transform)
	case err != nil || info.Attributes.Codec != codec.Name() || info.Attributes.Schema != codec.Fingerprint():
		why = "with another version of the type"
	default:
		return ""
	}
	return "another program has stored it (" + why + "): call Audit of its informer there, or set AuditEvery"
}

// reach fails if the server does not answer, or refuses to list.
func (p planned) reach(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	if _, err := serverVersion(limited, p.conn.raw); err != nil {
		return serverError(err, ", and nothing was compared")
	}
	_, err := p.ask(ctx)
	return err
}

// Audit implements source.Holder.
func (m *mirror) Audit(ctx context.Context) (all []source.Audited, err error) {
	for _, mb := range m.now() {
		a := auditedOf(mb.identity, mb.resource, "")
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
			return audit.Report{}, notLive(st.Err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limited.Done():
		}
	}
}

// notLive is why there was no watch for so long; why may be nil.
func notLive(why error) error {
	if why == nil {
		return audit.ErrNotLive
	}
	return fmt.Errorf("%w: %w", audit.ErrNotLive, why)
}

func auditedOf(id entry.Identity, r resource, skipped string) source.Audited {
	sc := scope(source.NewCollection(store.Info{Identity: id}))
	if sc == "all" {
		sc = ""
	}
	return source.Audited{
		Collection: id.ID(), Resource: r.String(), Scope: sc, Representation: string(id.Representation), Findings: []string{},
		Skipped: skipped,
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
	case a.Skipped != "":
		return "not compared: " + a.Skipped
	case why != "" && a.Objects == 0:
		return "not compared: " + why
	case why != "":
		return fmt.Sprintf("compared with the first %s of the server, not to the end: %s", counted(a.Objects, "object"), why)
	case a.Repaired() > 0:
		return fmt.Sprintf("%d repaired: %s", a.Repaired(), has)
	}
	return "ok: " + has
}
