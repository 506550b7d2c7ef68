package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

type saveOptions struct {
	from       input.FromFlag
	cluster    *cluster.Flags
	selects    input.SelectFlags
	redact     redactFlag
	recipients recipientFlags
	signKey    string
	secrets    bool
	force      bool
	schemas    bool
	// byVariable says that the environment variable LARDER_STORE names the store to save, and no flag does.
	byVariable bool

	// memory holds the collections that a running sync has only in memory, so that they cannot be saved. known is the
	// number of notes about left-out collections that the source file, a snapshot itself, already had.
	memory []source.Collection
	known  int
	// leftOut holds the reasons why collections were left out, for the error about an empty snapshot.
	leftOut []string
}

func newSnapshotSave(s command.IO) *cobra.Command {
	o := saveOptions{cluster: cluster.NewFlags()}
	cmd := &cobra.Command{
		Use:   "save FILE [RESOURCE…] [--from STORE]",
		Short: "Save a store, or a live cluster, to a snapshot",
		Long: `Save a store, or a live cluster, to a snapshot.

With --from, or LARDER_STORE, a store is saved, also while larder sync holds it: no reader or writer of the store
waits, and each collection is saved as of its resourceVersion. Resources that the sync keeps in memory only (Secrets
without --key-file or --persist-secrets) cannot be saved from the store. --from may be a snapshot: the new one is a
part of it.

Without them, or with a connection flag (--kubeconfig, --context, --server, …) and no --from, the resources of a live
cluster are listed: the named ones, or all that can be listed and watched except events. -n and the selectors are sent
to the server. If no resource is named, a note says which you may not list; it is an error if you may list none.

Secrets are left out unless the snapshot is encrypted (--recipient, --recipients-file, --passphrase), they are
redacted, or --include-secrets is given. larder snapshot restore makes a store from a snapshot, which resumes the
watch; a collection from which objects or values were left out is listed first.`,
		Example: `  larder snapshot save cluster.larder --from cluster.db
  larder snapshot save monday.larder                               # all that the server lists, but events
  larder snapshot save web.larder pods deploy -n web --passphrase
  larder snapshot save public.larder --from all.larder --redact secrets,configmaps,env=*TOKEN*`,
		Args: command.NeedArgs(1, -1, "the file to make, and perhaps resources"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.orVariable(cmd)
			return o.run(cmd.Context(), s, args[0], args[1:])
		},
	}
	cmd.ValidArgsFunction = input.CompleteFiles(1, func([]string) input.FromFlag {
		o.orVariable(cmd)
		return o.from
	})
	f := cmd.Flags()
	o.from.Add(cmd)
	f.Lookup("from").Usage = "the `FILE` to save: a store, also while larder sync holds it, or a snapshot. " +
		"Default is what " + command.StoreVariable + " names, or else the live cluster"
	o.selects.Add(cmd)
	o.redact.add(cmd)
	o.recipients.add(cmd)
	f.StringVar(&o.signKey, "sign-key", "",
		"sign the snapshot with the secret key in `FILE`, of larder keygen --signing or minisign -G -W")
	f.BoolVar(&o.secrets, "include-secrets", false, "save Secrets although the snapshot is not encrypted")
	f.BoolVar(&o.schemas, "schemas", true,
		"of a live cluster, save the OpenAPI schemas of the saved resources, for kubectl explain: about 6 MB for a whole "+
			"cluster. A store has the schemas that larder sync --schemas has stored")
	f.BoolVar(&o.force, "force", false, "replace an existing file, once the new one is complete")
	o.cluster.AddFlags(f)
	return cmd
}

func (o *saveOptions) orVariable(cmd *cobra.Command) {
	if o.from.Path == "" && !cluster.Named(cmd) {
		o.from.Path = command.OrVariable("")
		o.byVariable = o.from.Path != ""
	}
}

func (o *saveOptions) run(ctx context.Context, s command.IO, path string, args []string) error {
	redaction, err := o.redact.redaction()
	if err := errors.Join(err, o.selects.Check(), input.OnlyResources(args)); err != nil {
		return command.Usage(err)
	}
	if path == "-" {
		return command.Usagef("a snapshot is written to a file, not to standard output: it gets its name when it is complete")
	}
	if err := o.mayWrite(path); err != nil {
		return err
	}
	recipients, err := o.recipients.read(s)
	if err != nil {
		return err
	}
	signingKey, err := input.SigningKey("sign-key", o.signKey)
	if err != nil {
		return err
	}
	so := snapshot.SaveOptions{
		Recipients: recipients, SigningKey: signingKey, Secrets: o.secrets,
		SelectOptions: snapshot.SelectOptions{Redaction: redaction}, Header: snapshot.Header{Larder: source.Version()},
	}
	so.KeepExisting = !o.force
	so.Accept = func(saved snapshot.Saved) error { return o.accept(saved, args) }
	if o.byVariable {
		fmt.Fprintf(s.Err,
			"note: saving %s, which %s names; a flag of the connection, such as --context, saves the live cluster\n",
			o.from.Path, command.StoreVariable)
	}
	save := o.saveFrom
	if o.from.Path == "" {
		save = o.saveLive
	}
	var done func()
	so.Progress, done = s.Bar("saving")
	saved, err := save(ctx, s, path, args, so)
	done()
	if err != nil {
		noteNotSaved(s, o.leftOut)
		return command.IfInterrupted(ctx, o.saveError(path, err), "nothing was written")
	}
	return o.printResult(s, path, saved)
}

func (o *saveOptions) mayWrite(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Lstat(path) // the link's target does not exist, so the link itself is replaced
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noDirectory(path)
	case err != nil:
		return command.WithHint(fmt.Errorf("there can be no snapshot at %s: %w", path, err), writeElsewhere)
	case info.IsDir():
		return command.WithHint(fmt.Errorf("%s is a directory", path), "name a file in it, as in %s/cluster.larder", path)
	case !o.force:
		return isThere(path)
	case o.from.Path != "" && sameFile(path, o.from.Path) && !input.IsSnapshot(path):
		return command.Usagef("%s is the store that is to be saved, and would be replaced", path)
	case info.Mode().IsRegular() && info.Size() > 0 && !input.IsSnapshot(path):
		return command.WithHint(fmt.Errorf("%s is no snapshot: --force replaces nothing else", path),
			"name another file, or remove it if it is of no more use")
	}
	return nil
}

const writeElsewhere = "name a file in a directory that you may write to"

// noDirectory returns an error if the directory of the path does not exist.
func noDirectory(path string) error {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return command.WithHint(fmt.Errorf("there can be no snapshot at %s: there is no directory %s", path, dir),
			"make it, or "+writeElsewhere)
	}
	return nil
}

// noResource returns an error if the given file name is the name of a resource, because the user has probably forgotten
// the file.
func noResource(path string, known []input.Resource) error {
	names := input.SplitArgs([]string{path})
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if _, ok := source.Match(name, known); !ok && len(input.InCategory(name, known)) == 0 &&
			!slices.Contains(source.WellKnown(), name) {
			return nil
		}
	}
	return command.Usage(command.WithHint(fmt.Errorf("the file to make comes first, and %s is a resource", path),
		"larder snapshot save FILE.larder %s; a file of that name would be .%c%[1]s", path, filepath.Separator))
}

func sameFile(a, b string) bool {
	ia, errA := os.Stat(a)
	ib, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(ia, ib)
}

func (o *saveOptions) saveFrom(
	ctx context.Context, s command.IO, path string, args []string, so snapshot.SaveOptions,
) (snapshot.Saved, error) {
	src, st, err := o.from.Described(ctx, s)
	if err != nil {
		return snapshot.Saved{}, err
	}
	if err = noResource(path, input.StoredResources(st.Collections)); err == nil {
		so.Filter, err = o.selects.Filter(o.from.Path, args, st.Collections)
	}
	if err == nil {
		err = o.keepInMemory(input.InMemory(st.Collections, so.Filter), so.Filter)
	}
	if err != nil {
		return snapshot.Saved{}, errors.Join(input.ReadError(o.from.Path, err), src.Close())
	}
	saved, err := o.saveSource(ctx, src, path, so)
	if err != nil {
		err = input.DecodeError(o.from.Path, err)
	}
	return saved, errors.Join(err, src.Close())
}

// keepInMemory notes the collections that a running sync has only in memory. They cannot be saved, so it fails if the
// user requested them by name or with --secrets.
func (o *saveOptions) keepInMemory(memory []source.Collection, f snapshot.Filter) error {
	o.memory = memory
	if len(memory) == 0 || len(f.Resources) == 0 && !o.secrets {
		return nil
	}
	what := input.Names(input.StoredResources(memory), input.Resource.String)
	return command.WithHint(fmt.Errorf("%s of %s cannot be saved: the larder sync that holds it has them in memory only",
		what,
		o.from.Path), input.SaveElsewhere, what)
}

func (o *saveOptions) saveSource(
	ctx context.Context, src source.Source, path string, so snapshot.SaveOptions,
) (snapshot.Saved, error) {
	if sync, ok := src.(*source.Client); ok {
		return o.saveSync(ctx, sync, path, so)
	}
	if file, ok := src.(*source.Snapshot); ok && len(so.Filter.Resources) == 0 {
		o.known = len(file.File().Manifest().LeftOut)
	}
	return snapshot.Save(ctx, source.Records(src), path, so)
}

// saveSync saves a store that a running sync holds: the sync streams the snapshot, and this process writes the stream
// to path.
func (o *saveOptions) saveSync(
	ctx context.Context, sync *source.Client, path string, so snapshot.SaveOptions,
) (snapshot.Saved, error) {
	in, err := sync.Snapshot(ctx, source.SaveRequest{
		Filter: so.Filter, Redaction: so.Redaction, Secrets: so.Secrets || len(so.Recipients) > 0,
	})
	if err != nil {
		return snapshot.Saved{}, err
	}
	defer func() { _ = in.Close() }() // the snapshot was read to its end or has failed
	return snapshot.SaveStream(ctx, in, path, so)
}

func noteNotSaved(s command.IO, leftOut []string) {
	for _, left := range leftOut {
		fmt.Fprintln(s.Err, "note: not saved:", left)
	}
}

func printDefects(s command.IO, all []snapshot.Collection) { input.PrintDefects(s, described(all)) }

func described(all []snapshot.Collection) []source.Collection {
	var described []source.Collection
	for _, c := range all {
		one := source.NewCollection(c.Info())
		one.Filtered, one.Redacted = c.Filtered, c.Redacted
		described = append(described, one)
	}
	return described
}

const encryptHint = "--recipient KEY or --passphrase encrypts the snapshot, with Secrets in it; " +
	"--include-secrets saves them as they are"

func (o *saveOptions) printResult(s command.IO, path string, saved snapshot.Saved) error {
	how := ""
	if o.recipients.asked() {
		how = ", encrypted"
	}
	_, err := fmt.Fprintf(s.Out, "%s: %s, %s%s\n", path,
		command.Within(saved.Objects, len(saved.Collections)-len(saved.Refused)),
		command.Size(saved.Size), how)
	noteNotSaved(s, saved.LeftOut)
	printDefects(s, saved.Collections)
	if len(saved.Refused) > 0 {
		fmt.Fprintf(s.Err,
			"note: the API server does not list %d of %d resources for you, and nothing of them is saved: %s\n",
			len(saved.Refused), len(saved.Collections), refusedText(saved.Refused))
	}
	if len(o.memory) > 0 {
		fmt.Fprintf(s.Err, "hint: "+input.SaveElsewhere+"\n",
			input.Names(input.StoredResources(o.memory), input.Resource.String))
	}
	if len(saved.LeftOut) > len(o.memory)+o.known && !o.secrets && !o.recipients.asked() {
		fmt.Fprintln(s.Err, "hint: "+encryptHint)
	}
	if saved.Objects == 0 {
		fmt.Fprintln(s.Err, "note: nothing is in the snapshot")
	}
	return err
}

// nothingSaved is an error of accept. Its text is complete, so that saveError adds no hint.
type nothingSaved struct{ error }

func (e nothingSaved) Unwrap() error { return e.error }

const refusedNamed = 5

// refusedText lists the resources that the server refused to list, with the reason for the first resource.
func refusedText(all []snapshot.Refused) string {
	var names []string
	for _, r := range all[:min(len(all), refusedNamed)] {
		names = append(names, input.NameOf(r.Collection))
	}
	text := strings.Join(names, ", ")
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s (%v)", text, all[0].Err)
}

// accept returns an error for a snapshot that must not be kept: it lacks something that the arguments name, it is empty
// although the flags select something, or the server refused every list.
func (o *saveOptions) accept(saved snapshot.Saved, args []string) error {
	if n := len(saved.Refused); n > 0 && n == len(saved.Collections) {
		return nothingSaved{command.WithHint(fmt.Errorf("the API server lists nothing for you, and nothing was written: %s",
			refusedText(saved.Refused)),
			"kubectl auth can-i --list shows what you may do; name a namespace that you may read with -n, or use other "+
				"credentials: --user, --context, --token")}
	}
	of := "the cluster"
	if o.from.Path != "" {
		of = o.from.Path
	}
	if left := saved.LeftOutCollections(); len(args) > 0 && len(left) > 0 {
		what := "not all that was named of"
		if len(saved.Collections) == 0 {
			what = "nothing of"
		}
		return nothingSaved{command.WithHint(fmt.Errorf("%s %s can be saved, and nothing was written: %s", what, of,
			strings.Join(left, "; ")), encryptHint)}
	}
	selects := len(o.selects.Namespaces) > 0 || o.selects.Labels+o.selects.Fields != ""
	// The server has listed the named resources, so there really are no objects.
	listed := o.from.Path == "" && len(saved.Collections) > 0
	if saved.Objects > 0 || !selects && (len(args) == 0 || listed) {
		return nil
	}
	o.leftOut = saved.LeftOut
	return nothingSaved{command.WithHint(fmt.Errorf("nothing of %s is selected for the snapshot, and nothing was written",
		of),
		"check the resources, -n, -l and --field-selector")}
}

func isThere(path string) error {
	return command.WithHint(fmt.Errorf("%s is there already", path), "name another file, or replace it with --force")
}

func (o *saveOptions) saveError(path string, err error) error {
	var nothing nothingSaved
	switch {
	case errors.As(err, &nothing):
		return nothing.error
	case !o.force && errors.Is(err, fs.ErrExist):
		return isThere(path)
	case errors.Is(err, store.ErrNoSpace), errors.Is(err, syscall.ENOSPC):
		return command.WithHint(err, "make room on that disk, or save to another one; nothing was replaced")
	case errors.Is(err, source.ErrNoAnswer), errors.As(err, new(*source.HeldError)):
		// ErrNoAnswer and HeldError already have a hint, from StoreError.
		return err
	case errors.Is(err, store.ErrLocked):
		// Another process has locked the store after this command had opened it for reading.
		return command.WithHint(err,
			"a program other than larder sync holds the store: stop it, since only a larder sync can be saved while it runs")
	case errors.Is(err, snapshot.ErrTooLarge):
		return err
	case isMade(path, err):
		return command.WithHint(err, writeElsewhere)
	}
	return err
}

// isMade reports whether err is about the snapshot file at path or the temporary file, with a longer name, into which
// it is first written.
func isMade(path string, err error) bool {
	if real, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
		path = real
	}
	var of *fs.PathError
	return errors.As(err, &of) && (of.Path == path || strings.HasPrefix(of.Path, path+".new-"))
}
