package snapshots

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
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

type exporting struct {
	s       command.IO
	src     snapshot.Source
	secrets bool
	raw     bool
	objects int
	// superseded holds the collections of which nothing is exported, because other collections of the resource are more
	// reliable (see overlaps).
	superseded map[entry.Identity]bool
	// done is called when all records have been read. Then absent prints the objects that the file lacks, and after that
	// notes are printed.
	done, absent func()
	notes        []string
	exported     []snapshot.Collection
}

type exportTo interface {
	object(c snapshot.Collection, object map[string]any) error
}

// run exports every object once, although several collections may contain it (see overlaps). It skips damaged blocks of
// a snapshot, and returns the error about them after it has read all other records.
func (e *exporting) run(ctx context.Context, to exportTo) error {
	all, err := e.src.Collections(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, exportedFirst)
	var over overlaps
	var missing []error
	for i, c := range all {
		if !over.takes(c) {
			e.noteNewer(c, all)
			continue
		}
		if why := e.leavesOut(c); why != "" {
			e.notes = append(e.notes, fmt.Sprintf("%s: %s", input.NameOf(c), why))
			continue
		}
		e.exported = append(e.exported, c)
		over.last = i+1 == len(all) || input.NameOf(all[i+1]) != input.NameOf(c)
		err := e.collection(ctx, c, to, &over)
		if isMissing(err) {
			missing = append(missing, err)
		} else if err != nil {
			return err
		}
		over.end(c)
	}
	e.superseded = over.superseded
	return errors.Join(missing...)
}

func isMissing(err error) bool {
	var missing *snapshot.MissingError
	return errors.As(err, &missing)
}

// noteNewer adds a note if collection c, of which nothing is exported, had contact with the server later than the
// collections exported instead.
func (e *exporting) noteNewer(c snapshot.Collection, all []snapshot.Collection) {
	newer := func(o snapshot.Collection) bool {
		return believed(o) && o.Identity.GroupResource() == c.Identity.GroupResource() &&
			(o.Identity.Namespace == "" || o.Identity.Namespace == c.Identity.Namespace) &&
			!o.LastContact.Before(c.LastContact)
	}
	if !slices.ContainsFunc(all, newer) {
		e.notes = append(e.notes, fmt.Sprintf("%s (%s): newer, but a part of what is exported", input.NameOf(c),
			input.ScopeOfID(c.Identity)))
	}
}

func (e *exporting) printResult() {
	e.done()
	e.absent()
	for _, note := range e.notes {
		fmt.Fprintln(e.s.Err, "note: not exported:", note)
	}
	printDefects(e.s, e.exported)
}

func (e *exporting) leavesOut(c snapshot.Collection) string {
	switch {
	case !e.secrets && c.Confidential() != "" && c.Identity.GroupResource() == input.Secrets.GroupResource():
		return "--include-secrets writes them as they are, --redact secrets without their values"
	case !e.secrets && c.Confidential() != "":
		return c.Confidential() + "; --include-secrets writes them as they are"
	case c.Identity.Representation == entry.Metadata && !e.raw:
		return "only their metadata is stored, which cannot be applied; --raw writes it"
	}
	return ""
}

func (e *exporting) collection(ctx context.Context, c snapshot.Collection, to exportTo, over *overlaps) error {
	decoder := snapshot.NewDecoder(c)
	unknown := 0
	err := e.src.Records(ctx, c.Identity, func(r entry.Entry) error {
		if !over.takesKey(r.Key) {
			return nil
		}
		u, err := decoder.Decode(r)
		if err == nil || errors.Is(err, snapshot.ErrUndecodable) {
			over.took(c, r.Key, err == nil)
		}
		if errors.Is(err, snapshot.ErrUndecodable) {
			unknown++
			return nil
		}
		if err != nil {
			return err
		}
		e.objects++
		return to.object(c, e.exportForm(u, c))
	})
	if err == nil && unknown > 0 {
		e.notes = append(e.notes, fmt.Sprintf("%s of %s, of a Go program's own type that larder cannot decode",
			command.CountedObjects(unknown), input.NameOf(c)))
	}
	return err
}

// setByServer lists the metadata fields that the API server sets, which are not exported.
var setByServer = []string{
	"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink", "deletionTimestamp",
	"deletionGracePeriodSeconds",
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// exportForm returns the object as it is exported: without fields that a new object cannot have. It may change u.
func (e *exporting) exportForm(u *unstructured.Unstructured, c snapshot.Collection) map[string]any {
	if u.GetKind() == "" && c.Resource.Kind != "" { // objects stored by typed clients have no kind, so it is added
		u.SetGroupVersionKind(c.Identity.GroupVersion().WithKind(c.Resource.Kind))
	}
	if e.raw {
		return u.Object
	}
	object := u.Object
	delete(object, "status")
	leaveOutGenerated(object)
	meta, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	for _, field := range setByServer {
		delete(meta, field)
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		if delete(annotations, lastApplied); len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	return object
}

type lineExport struct{ w io.Writer }

func (l lineExport) object(_ snapshot.Collection, object map[string]any) error {
	enc := json.NewEncoder(l.w)
	enc.SetEscapeHTML(false)
	return enc.Encode(object)
}

type yamlExport struct{ dir *yamldir.Dir }

func (y yamlExport) object(c snapshot.Collection, object map[string]any) error {
	u := unstructured.Unstructured{Object: object}
	path := yamldir.Path(u.GetNamespace(), c.Identity.GroupResource().String(), u.GetName())
	text, err := command.ToYAML(object)
	if err != nil {
		// The error does not wrap its cause, which may quote the object's content.
		return fmt.Errorf("%s cannot be written as YAML", path)
	}
	return y.dir.Put(path, text)
}

func nothingExported(from string) error {
	return command.WithHint(fmt.Errorf("nothing of %s is selected for the export", from),
		"check the resources, -n, -l and --field-selector; larder status --from %s lists what there is", from)
}

func unusableDir(dir string, err error) error {
	hint := "name a directory that you may write to, or one that is not there yet"
	if errors.Is(err, yamldir.ErrNotEmpty) {
		hint = "remove them, or name a directory that is not there yet; what begins with a dot, such as .git, may stay"
	}
	return command.WithHint(fmt.Errorf("no export can be made in %s: %w", dir, err), "%s", hint)
}

// overlaps decides which collection an object is exported from when several collections of its resource may contain it.
// A believed collection is complete and has whole objects (see believed): objects of its namespaces that only another
// collection has are deleted or outdated. Of several believed collections the collection with the latest contact wins.
// Objects outside their namespaces come from the first collection that is exported.
//
// Collections must be passed to takes in the order of exportedFirst, each before its records are read.
type overlaps struct {
	resource schema.GroupResource
	// whole holds the namespaces of the exported believed collections of the current resource; "" is all namespaces. A
	// believed collection is complete: objects missing from it do not exist.
	whole []string
	// unread holds keys of objects that believed (complete) collections of the current resource contain and that could not
	// be decoded.
	unread map[string]bool
	// exported holds keys of objects of the current resource that were exported from collections that are not believed,
	// that is, not complete.
	exported map[string]bool
	// last says that the current collection is the last of its resource.
	last bool
	// superseded holds the collections of which nothing is exported, because complete collections replace them.
	superseded map[entry.Identity]bool
}

// believed reports whether an object that is missing from collection c does not exist on the server, within the
// namespace of c.
func believed(c snapshot.Collection) bool {
	id := c.Identity
	return c.Complete && id.Representation != entry.Metadata && id.LabelSelector+id.FieldSelector+id.ShardSelector == ""
}

// exportedFirst orders collections by resource. Of one resource, complete collections (see believed) come first, and
// then collections with the latest contact with the server.
func exportedFirst(a, b snapshot.Collection) int {
	rank := func(c snapshot.Collection) int {
		if believed(c) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(input.NameOf(a), input.NameOf(b)), cmp.Compare(rank(a), rank(b)),
		b.LastContact.Compare(a.LastContact),
		cmp.Compare(a.Identity.String(), b.Identity.String()))
}

// takes begins the export of a collection, and reports whether its objects may be exported. Otherwise it adds the
// collection to superseded.
func (o *overlaps) takes(c snapshot.Collection) bool {
	if r := c.Identity.GroupResource(); o.exported == nil || r != o.resource {
		o.resource, o.whole, o.unread, o.exported = r, nil, map[string]bool{}, map[string]bool{}
	}
	if len(o.unread) > 0 || !slices.Contains(o.whole, "") &&
		(c.Identity.Namespace == "" || !slices.Contains(o.whole, c.Identity.Namespace)) {
		return true
	}
	if o.superseded == nil {
		o.superseded = map[entry.Identity]bool{}
	}
	o.superseded[c.Identity] = true
	return false
}

func (o *overlaps) takesKey(key string) bool {
	if o.unread[key] {
		return true
	}
	namespace, _ := input.SplitKey(key)
	return !o.exported[key] && !slices.Contains(o.whole, "") && (namespace == "" || !slices.Contains(o.whole, namespace))
}

// took handles an object of collection c: if decoded is true it was exported; otherwise it could not be decoded.
func (o *overlaps) took(c snapshot.Collection, key string, decoded bool) {
	switch {
	case o.last: // no later collection of this resource needs the key
	case !decoded && believed(c):
		o.unread[key] = true
	case decoded:
		delete(o.unread, key)
		if !believed(c) {
			o.exported[key] = true
		}
	}
}

func (o *overlaps) end(c snapshot.Collection) {
	if believed(c) {
		o.whole = append(o.whole, c.Identity.Namespace)
	}
}
