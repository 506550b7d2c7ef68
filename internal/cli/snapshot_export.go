package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/internal/yamldir"
	"github.com/larder-dev/larder/snapshot"
)

// exportOptions are the flags of snapshot export.
type exportOptions struct {
	from    fromFlag
	selects selectFlags
	redact  redactFlag
	output  outputFlag
	secrets bool
	raw     bool
}

const (
	exportYAML  = "yaml"
	exportLines = "jsonl"
)

func newSnapshotExport(s IO) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export DIR [RESOURCE…] --from FILE",
		Short: "Write objects as YAML files, or as lines of JSON",
		Long: `Write the objects of a snapshot or store as YAML, a file each, for kubectl apply and for git:

  DIR/<namespace or _cluster>/<resource>[.<group>]/<name>.yaml

Fields are in alphabetical order, without status and what the server sets (managedFields, resourceVersion, uid, creationTimestamp, generation), nor the annotation
last-applied-configuration; --raw keeps all. ownerReferences stay: what another object has made goes again where that is not. In names, what some
file systems do not take is written as %XX, and long names are cut.

An export to the same directory writes what has changed, and removes what is gone: files that it has written itself, which are listed in DIR/` + yamldir.Marker + `. It never replaces or removes
another one.

-o jsonl writes whole objects to one file, or with - to standard output, a line each. Secrets are left out, unless --include-secrets is
given or they are redacted.`,
		Example: `  larder snapshot export manifests deploy,svc,cm -n web --from cluster.larder
  larder snapshot export backup --from cluster.db --redact env=*PASSWORD*
  larder snapshot export - pods --from cluster.larder -o jsonl | jq .status.phase`,
		Args: needArgs(1, -1, "a directory, and perhaps resources"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), s, args[0], args[1:])
		},
	}
	o.from.add(cmd)
	o.selects.add(cmd)
	o.redact.add(cmd)
	o.output.add(cmd, exportYAML, exportLines)
	cmd.Flags().BoolVar(&o.secrets, "include-secrets", false, "write Secrets too, as they are")
	cmd.Flags().BoolVar(&o.raw, "raw", false, "write whole objects, with status and what the server sets")
	return cmd
}

func (o *exportOptions) run(ctx context.Context, s IO, to string, args []string) error {
	redaction, err := o.redact.redaction()
	if err := errors.Join(err, o.from.check(), o.output.check(), o.selects.check()); err != nil {
		return usageError{err}
	}
	if to == "-" && o.output.format != exportLines {
		return usagef("standard output takes -o jsonl only; name a directory for YAML")
	}
	src, err := o.from.open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // it was only read
	st, err := src.Status(ctx)
	if err != nil {
		return readError(o.from.path, err)
	}
	filter, err := o.selects.filter(o.from.path, st.Collections, args)
	if err != nil {
		return orLost(o.from.path, err, lostOf(src))
	}
	all, done, err := s.counted(ctx, "exporting", source.Records(src), to == "-")
	if err != nil {
		return readError(o.from.path, err)
	}
	defer done()
	selected, err := snapshot.Select(all, snapshot.SelectOptions{Filter: filter, Redaction: redaction})
	if err != nil {
		return usageError{err}
	}
	e := &exporting{s: s, src: selected, secrets: o.secrets || redaction.Secrets, raw: o.raw}
	e.lost = func() error {
		if len(filter.Resources) > 0 { // which say themselves what they have lost
			return nil
		}
		return lostOf(src)
	}
	e.done = func() {
		done()
		notePart(s, o.from.path, st.Collections, filter)
		if len(filter.Resources) == 0 {
			noteLeftOut(s, o.from.path, st)
		}
	}
	if o.output.format == exportLines {
		err = o.lines(ctx, e, to)
	} else {
		err = o.files(ctx, e, to)
	}
	if err != nil {
		return outError(o.from.path, err)
	}
	noteWhole(s, o.from.path, lostOf(src))
	return nil
}

// files writes a directory.
func (o *exportOptions) files(ctx context.Context, e *exporting, dir string) error {
	d, err := yamldir.Open(dir)
	if err != nil {
		return withHint(fmt.Errorf("no export can be made in %s: %w", dir, err), "name a directory that you may write to, or one that is not there yet")
	}
	defer func() { _ = d.Close() }() // Finish says what is wrong
	err = e.run(ctx, func(c snapshot.Collection, object map[string]any) error { return e.file(d, c, object) })
	if errors.Is(err, yamldir.ErrForeign) {
		return withHint(fmt.Errorf("%s: %w", dir, err), "move it away, or name another directory")
	}
	if err != nil {
		return err
	}
	done, err := d.Finish()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.s.Out, "%s: %s: %d written, %d unchanged, %d removed\n", dir, counted(done.Files(), "file"), done.Written, done.Unchanged, done.Removed)
	return err
}

// lines writes one file, which appears when it is complete, or standard output.
func (o *exportOptions) lines(ctx context.Context, e *exporting, path string) error {
	e.raw = true
	if path == "-" {
		return e.lines(ctx, e.s.Out)
	}
	temp, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return withHint(err, "name a file in a directory that you may write to")
	}
	err = errors.Join(e.lines(ctx, temp), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	_, err = fmt.Fprintf(e.s.Out, "%s: %s\n", path, countedObjects(e.objects))
	return err
}

func (e *exporting) lines(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<16)
	err := e.run(ctx, func(_ snapshot.Collection, object map[string]any) error { return writeLine(out, object) })
	return errors.Join(err, out.Flush())
}
