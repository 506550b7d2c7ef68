package snapshots

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/internal/yamldir"
	"github.com/larder-dev/larder/snapshot"
)

type exportOptions struct {
	from    input.FromFlag
	selects input.SelectFlags
	redact  redactFlag
	secrets bool
	raw     bool
}

// exportLines is the argument that exports JSON lines to standard output instead of files to a directory.
const exportLines = "-"

func newSnapshotExport(s command.IO) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export DIR [RESOURCE…] --from FILE",
		Short: "Write objects as YAML files, or as lines of JSON",
		Long: `Write the objects of a snapshot or store as YAML, a file each, for kubectl apply -R -f DIR and for
git:

  DIR/<namespace or _cluster>/<resource>[.<group>]/<name>.yaml

Fields are sorted by name. Left out are status, the fields that the server sets (managedFields, resourceVersion, uid,
creationTimestamp, generation), and the annotation last-applied-configuration. Also left out are fields that the
server or a controller has generated for this object, because a new object could not have them: the selector and
labels of a Job's Pods, clusterIP and nodePort of a Service, a Pod's node and token, the volume that was found for a
claim. A clusterIP, nodePort or node that a client has set, according to managedFields, stays. --raw keeps all fields.
ownerReferences stay: if the owner does not exist, the garbage collector deletes such an object again. Characters that
some file systems do not allow are written as %XX in names, and long names are cut.

DIR must be new or empty, except for names that begin with a dot, such as .git. To export again, remove the files
first (rm -r DIR/*): git shows the changes. An export that selects nothing is an error.

- in place of DIR writes whole objects to standard output, one line of JSON each. Secrets, and other resources that
the store seals, are left out, unless --include-secrets is given or the Secrets are redacted.`,
		Example: `  larder snapshot export manifests deploy,svc,cm -n web --from cluster.larder
  larder snapshot export backup --from cluster.db --redact env=*PASSWORD*
  larder snapshot export - pods --from cluster.larder | jq .status.phase`,
		Args: command.NeedArgs(1, -1, "a directory, and perhaps resources"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), s, args[0], args[1:])
		},
		ValidArgsFunction: input.CompleteFiles(1, func([]string) input.FromFlag {
			return input.FromFlag{Path: command.OrVariable(o.from.Path), IdentityFlag: o.from.IdentityFlag}
		}),
	}
	o.from.Add(cmd)
	o.selects.Add(cmd)
	o.redact.add(cmd)
	cmd.Flags().BoolVar(&o.secrets, "include-secrets", false,
		"write Secrets, and other resources that the store seals, unchanged")
	cmd.Flags().BoolVar(&o.raw, "raw", false,
		"write whole objects, with status and the fields that the server sets")
	return cmd
}

func (o *exportOptions) run(ctx context.Context, s command.IO, to string, args []string) error {
	redaction, err := o.redact.redaction()
	if err := errors.Join(err, o.from.Check(), o.selects.Check()); err != nil {
		return command.Usage(err)
	}
	src, st, err := o.from.Described(ctx, s)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	filter, err := o.selects.Filter(o.from.Path, args, st.Collections)
	if err != nil {
		return err
	}
	e := &exporting{s: s, secrets: o.secrets, raw: o.raw || to == exportLines}
	e.absent = func() {
		all := slices.DeleteFunc(slices.Clone(st.Collections),
			func(c source.Collection) bool { return e.superseded[c.Identity()] })
		input.NotePart(s, o.from.Path, all, filter)
		input.NoteUnfinished(s, o.from.Path, all, filter)
		input.NoteRedacted(s, o.from.Path, all, filter, "; kubectl apply would write REDACTED to a cluster")
		if len(filter.Resources) == 0 {
			input.NoteLeftOut(s, o.from.Path, st)
		}
	}
	err = o.export(ctx, e, source.Records(src), to, snapshot.SelectOptions{Filter: filter, Redaction: redaction})
	if err != nil {
		return command.IfInterrupted(ctx, input.DecodeError(o.from.Path, err), o.left(to))
	}
	return nil
}

func (o *exportOptions) left(to string) string {
	if to == exportLines {
		return ""
	}
	return "some files may be written; remove them and export again"
}

func (o *exportOptions) export(
	ctx context.Context, e *exporting, src snapshot.Source, to string, so snapshot.SelectOptions,
) error {
	counted, done, err := e.s.Counted(ctx, "exporting", src, to == exportLines)
	if err != nil {
		return err
	}
	e.done = done
	defer e.printResult()
	selected, err := snapshot.Select(counted, so)
	if err != nil {
		return command.Usage(err)
	}
	e.src = selected
	if to == exportLines {
		return o.lines(ctx, e)
	}
	return o.files(ctx, e, to)
}

func (o *exportOptions) files(ctx context.Context, e *exporting, dir string) error {
	d, err := yamldir.Open(dir)
	if err != nil {
		return unusableDir(dir, err)
	}
	// Every file in the directory has been closed already, so an error of closing the directory loses nothing.
	defer func() { _ = d.Close() }()
	if err := e.run(ctx, yamlExport{d}); err != nil {
		return err
	}
	if d.Files == 0 {
		return nothingExported(o.from.Path)
	}
	_, err = fmt.Fprintf(e.s.Out, "%s: %s\n", dir, command.Counted(d.Files, "file"))
	return err
}

func (o *exportOptions) lines(ctx context.Context, e *exporting) error {
	out := bufio.NewWriterSize(e.s.Out, 1<<16)
	err := command.Flushed(e.run(ctx, lineExport{out}), out)
	if err == nil && e.objects == 0 {
		err = nothingExported(o.from.Path)
	}
	return err
}
