package query

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/internal/source"
)

type getOptions struct {
	from           input.FromFlag
	print          printFlags
	namespace      string
	all            bool
	selector       string
	fields         string
	collection     string
	ignoreNotFound bool
	watch          bool
	events         bool
	eventsAsked    bool // --output-watch-events is set: templates and columns print events, too
}

// NewGet returns larder get.
func NewGet(s command.IO) *cobra.Command {
	o := getOptions{print: newPrintFlags()}
	cmd := &cobra.Command{
		Use:   "get [FILE] (RESOURCE[,RESOURCE…] [NAME…] | RESOURCE/NAME…)",
		Short: "Print stored objects like kubectl get; needs no API server",
		Long: `Print objects from a store like kubectl get, also while larder sync holds it: with the same names of
resources and categories (all), the same columns and the same output formats. No API server is needed. Standard error
says how old the data is. As in kubectl, the namespace is "default" unless -n or -A is given. --field-selector accepts
any field that is a string, a number or a boolean, also of custom resources; a field that an object lacks is empty.
Nothing is coloured, so NO_COLOR changes nothing.`,
		Example: `  larder get pods --from cluster.db
  larder get all -n web -o wide --from cluster.db
  larder get deploy,svc -A -l app=web --show-labels --from cluster.db
  larder get pods -A --field-selector status.phase!=Running,spec.nodeName=worker-1 --from cluster.db
  larder get pods -A --from cluster.db --sort-by .metadata.creationTimestamp \
    -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName
  larder get cluster.db node/worker-1 svc/web -o yaml`,
		Args: command.NeedArgs(1, -1, "a resource, and perhaps names"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGet(cmd.Context(), s, &o, args)
		},
		ValidArgsFunction: o.complete,
	}
	o.addFlags(cmd)
	cmd.Flags().Lookup("output").Usage += "; with -w also " + formatChanges + ", which prints the changed fields"
	cmd.Flags().BoolVar(&o.ignoreNotFound, "ignore-not-found", false,
		"do not fail if an object that is requested by name does not exist")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "after the objects, print changes, like larder watch")
	cmd.Flags().BoolVar(&o.events, eventsFlag, false,
		"with -w, print the type of each event with its object: templates and columns get {.type} and {.object}")
	return cmd
}

const eventsFlag = "output-watch-events"

const defaultNamespace = "default"

func (o *getOptions) addFlags(cmd *cobra.Command) {
	o.from.Add(cmd)
	o.print.add(cmd)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", defaultNamespace, "the objects' `NAMESPACE`")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "objects of all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "label `SELECTOR`, as in app=web,tier!=db")
	cmd.Flags().StringVar(&o.fields, "field-selector", "", "field `SELECTOR`, as in status.phase=Running,spec.nodeName!=a")
	cmd.Flags().StringVar(&o.collection, "collection", "",
		"the `ID` of the collection to read, as larder status prints it, or a prefix of it")
	command.CompleteFlag(cmd, "namespace", o.completeNamespaces)
	command.CompleteFlag(cmd, "collection", o.completeCollections)
	command.CompleteFlag(cmd, "output", o.completeFormats)
}

func runGet(ctx context.Context, s command.IO, o *getOptions, args []string) error {
	switch {
	case o.watch:
		o.eventsAsked, o.print.watched = o.events, true
		return runWatch(ctx, s, &watchOptions{getOptions: *o, list: true}, args)
	case o.events:
		return command.Usagef("--output-watch-events needs -w")
	}
	targets, err := o.parse(args)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(s.Out, 1<<16)
	p, err := o.print.printer(command.IO{Out: out, Err: s.Err, Now: s.Now}, one(targets), o.all)
	if err != nil {
		return err
	}
	src, answers, err := o.open(ctx, s, targets)
	if src == nil {
		return err
	}
	defer func() { _ = src.Close() }()
	answers, unlisted := o.listed(answers)
	if err = errors.Join(err, unlisted); len(answers) == 0 {
		return err
	}
	o.printAllFreshness(s, answers)
	g := getting{o: o, s: s, src: src, printer: p, flush: out.Flush}
	return errors.Join(err, g.run(ctx, answers))
}

// open opens the file and chooses the stored collections that answer the targets. If only some targets have an answer,
// it returns these answers and an error. Without an answer the returned source is nil.
func (o *getOptions) open(ctx context.Context, s command.IO, targets []target) (source.Source, []answer, error) {
	src, err := o.from.Open(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	status, err := afterFirstList(ctx, s, src, targets)
	if err != nil {
		_ = src.Close()
		return nil, nil, input.ReadError(o.from.Path, err)
	}
	answers, err := o.choose(status.Collections, targets)
	if err != nil {
		input.NoteLeftOut(s, o.from.Path, status)
	}
	if len(answers) == 0 && err != nil {
		_ = src.Close()
		return nil, nil, err
	}
	return src, answers, err
}

// listed returns the answers whose collections were listed. The error is about answers whose first list was never
// completed.
func (o *getOptions) listed(answers []answer) ([]answer, error) {
	var errs []error
	rest := slices.DeleteFunc(slices.Clone(answers), func(a answer) bool {
		err := input.UnlistedError(o.from.Path, a.Collections)
		errs = append(errs, err)
		return err != nil && !slices.ContainsFunc(a.Collections, func(c source.Collection) bool { return c.Objects > 0 })
	})
	return rest, errors.Join(errs...)
}

// printAllFreshness prints how old the data of each answer is, and its notes. For tables it also prints a note about
// resources whose columns are unknown.
func (o *getOptions) printAllFreshness(s command.IO, answers []answer) {
	for _, a := range answers {
		a.printFreshness(s)
		if o.print.table() && !columnsOf(a.Choice).Known() {
			fmt.Fprintf(s.Err, "note: the columns of %s are not known, so NAME and AGE are shown; -o yaml shows all\n",
				a.Resource)
		}
	}
}

func one(targets []target) bool {
	return len(targets) == 1 && len(targets[0].names) == 1 && !targets[0].several
}

func (a answer) printFreshness(s command.IO) {
	for _, c := range a.Collections {
		fmt.Fprintln(s.Err, freshness(s, a.Resource, c, len(a.Collections) > 1))
	}
	for _, note := range a.Notes {
		fmt.Fprintln(s.Err, "note:", note)
	}
}

type getting struct {
	o       *getOptions
	s       command.IO
	src     source.Source
	printer printer
	flush   func() error

	// found is the number of printed objects. missing has an error for each named object that was not found.
	found   int
	missing []error
	damaged source.UnreadableError
}

// run prints the objects of all answers. It fails if a named object was not found.
func (g *getting) run(ctx context.Context, answers []answer) error {
	kinds := map[schema.GroupVersionResource]bool{}
	for _, a := range answers {
		kinds[a.Resource.GroupVersionResource] = true
	}
	for _, a := range answers {
		before := g.found
		if err := errors.Join(g.printer.begin(a.Choice, len(kinds) > 1), g.objects(ctx, a)); err != nil {
			return g.broken(err)
		}
		if err := g.o.noteFields(ctx, g.s, g.src, a.Choice, g.found > before); err != nil {
			return g.broken(err)
		}
	}
	var err error
	if !g.o.ignoreNotFound || g.found > 0 { // like kubectl, which prints no empty list with --ignore-not-found
		err = g.printer.finish()
	}
	if err := errors.Join(err, g.flush()); err != nil {
		return err
	}
	if g.damaged.Count > 0 {
		return input.ReadError(g.o.from.Path, errors.Join(append([]error{&g.damaged}, g.missing...)...))
	}
	if g.found == 0 && len(g.missing) == 0 && g.o.print.table() && !g.o.ignoreNotFound {
		g.nothing(ctx, answers)
	}
	return errors.Join(g.missing...)
}

// broken ends the output after an error. It prints the rest of a table, but does not close a JSON or YAML list, because
// a partial list must not look complete.
func (g *getting) broken(err error) error {
	if g.o.print.table() {
		err = errors.Join(err, g.printer.finish())
	}
	return errors.Join(input.ReadError(g.o.from.Path, err), g.flush())
}

// objects prints the objects of one answer. After a damaged or missing object it continues, and keeps the error for the
// end of the command.
func (g *getting) objects(ctx context.Context, a answer) error {
	for _, q := range g.o.queries(a) {
		before := g.found
		_, names := g.printer.(*namePrinter)
		// Names need only keys. If the kind is unknown, objects are read for their kind.
		q.KeysOnly = names && q.collection.Kind != ""
		q.OmitManagedFields = !g.o.print.showsManagedFields()
		err := source.Objects(ctx, g.src, q.collection, q.Query, func(u *unstructured.Unstructured) error {
			g.found++
			return g.printer.object(u)
		})
		var unreadable *source.UnreadableError
		switch {
		case errors.As(err, &unreadable):
			g.damaged.Merge(unreadable)
		case err != nil:
			return err
		case q.Name != "" && g.found == before && !g.o.ignoreNotFound:
			g.missing = append(g.missing, g.o.missing(ctx, g.src, a, q.Name))
		}
	}
	return nil
}

// nothing prints that no objects were found, and a hint if other namespaces have objects.
func (g *getting) nothing(ctx context.Context, answers []answer) {
	if g.o.inOneNamespace(answers) {
		fmt.Fprint(g.s.Err, g.o.nothingIn(), g.o.otherNamespacesHint(ctx, g.src, answers))
		return
	}
	fmt.Fprintln(g.s.Err, "No resources found")
}

type collectionQuery struct {
	source.Query
	collection source.Collection
}

func (o *getOptions) queries(a answer) []collectionQuery {
	names := a.names
	if len(names) == 0 {
		names = []string{""}
	}
	var all []collectionQuery
	for _, c := range a.Collections {
		for _, name := range names {
			q := source.Query{Collection: c.ID, Name: name, Selector: o.selector, Fields: o.fieldsIn(c)}
			if a.Resource.Namespaced && !o.all {
				q.Namespace = o.namespace
			}
			all = append(all, collectionQuery{q, c})
		}
	}
	return all
}

// contactEvery is the maximum time between two messages from the server to a live sync: even without changes, a
// bookmark arrives every minute.
const contactEvery = 2 * time.Minute

func freshness(s command.IO, r input.Resource, c source.Collection, withScope bool) string {
	what := r.String()
	if withScope {
		what += " (" + input.Scope(c) + ")"
	}
	heard := "the server has never been heard"
	if !c.LastContact.IsZero() {
		heard = "as of " + command.AgeOf(s.Now(), c.LastContact) + " ago"
	}
	rv := c.ResourceVersion
	if rv == "" {
		rv = "none"
	}
	from := "from disk"
	switch {
	case !c.TakenAt.IsZero():
		from = "from a snapshot, taken " + command.AgeOf(s.Now(), c.TakenAt) + " ago"
		if c.LastContact.IsZero() || c.TakenAt.Sub(c.LastContact) <= contactEvery {
			heard = ""
		}
	case c.Live == nil:
	case c.Live.Uncommitted:
		from = "from disk; the running sync cannot write to it"
	case c.Live.Source == string(informer.Live) && !c.LastContact.IsZero():
		// Objects of a live sync are current, so the last contact with the server is not their age.
		from, heard = "live from the running sync",
			"which last heard the server "+command.AgeOf(s.Now(), c.LastContact)+" ago"
	case c.Live.Source == string(informer.Live):
		from = "live from the running sync"
	case c.Live.ListOnly:
		from = "from the running sync, which lists it and cannot watch it"
	case input.Forbidden(c):
		from = "from disk; the API server forbids it to the running sync"
	case !c.Persistent:
		from = "from the running sync's memory, which is out of contact"
	default:
		from = "from disk; the running sync is out of contact"
	}
	parts := []string{what + ": " + from, heard, "resourceVersion " + rv}
	if c.Changes != nil {
		parts = append(parts, fmt.Sprintf("seq %d", c.Changes.Last))
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

const (
	firstListWithin = time.Minute
	firstListEvery  = 100 * time.Millisecond
)

// afterFirstList returns the status of a store. If a sync is listing a requested resource for the first time, it waits
// up to firstListWithin until that list is complete or fails.
func afterFirstList(ctx context.Context, s command.IO, src source.Source, targets []target) (source.Status, error) {
	status, err := src.Status(ctx)
	if _, running := src.(*source.Client); !running || err != nil {
		return status, err
	}
	enough := time.After(firstListWithin)
	for printed := false; err == nil; status, err = src.Status(ctx) {
		waiting := firstLists(status.Collections, targets)
		if len(waiting) == 0 {
			return status, nil
		}
		if !printed {
			fmt.Fprintf(s.Err, "note: waiting for the first list of %s\n", input.Names(waiting, input.Resource.String))
			printed = true
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-enough: // a note then says that the list is incomplete
			return status, nil
		case <-time.After(firstListEvery):
		}
	}
	return status, err
}

func firstLists(stored []source.Collection, targets []target) []input.Resource {
	var waiting []source.Collection
	for _, c := range stored {
		if c.Complete || c.Live == nil || input.LiveError(*c.Live) != "" || !asked(c, stored, targets) {
			continue
		}
		waiting = append(waiting, c)
	}
	return input.StoredResources(waiting)
}

func asked(c source.Collection, stored []source.Collection, targets []target) bool {
	return slices.ContainsFunc(targets, func(t target) bool {
		return slices.ContainsFunc(input.NamedBy(t.resource, stored), func(r input.Resource) bool {
			return r.GroupVersionResource == c.GVR()
		})
	})
}

// fieldsIn returns the field selector that must still be applied to the objects of a collection. It returns none if the
// server has already applied the selector to the whole collection, because only the server knows defaults that are not
// in the objects, such as spec.unschedulable=false of nodes.
func (o *getOptions) fieldsIn(c source.Collection) string {
	if c.FieldSelector == o.fields {
		return ""
	}
	return discovery.StoredSelector(c.Identity().GroupResource(), o.fields)
}

// noteFields prints a note about fields of the selector that no stored object has. A store cannot reject a misspelled
// field, because it has no schema. The field is then empty in every object, so that = matches none and != all.
func (o *getOptions) noteFields(
	ctx context.Context, s command.IO, src source.Source, chosen input.Choice, found bool,
) error {
	selector, err := fields.ParseSelector(o.fields)
	if err != nil {
		return err
	}
	for _, r := range selector.Requirements() {
		if found && r.Operator != selection.NotEquals && r.Value != "" {
			// The objects found match a value of the field, so the field exists.
			continue
		}
		// Kubernetes defines the field for this kind, so it is not misspelled.
		if discovery.IsSelectableField(chosen.Collections[0].Identity().GroupResource(), r.Field) {
			continue
		}
		absent, err := o.absent(ctx, src, chosen.Collections, r.Field)
		if err != nil {
			return input.ReadError(o.from.Path, err)
		}
		if absent {
			fmt.Fprintf(s.Err, "note: none of the stored %s has a text, number or boolean at %q; it was taken for empty\n",
				chosen.Resource, r.Field)
		}
	}
	return nil
}

func (o *getOptions) absent(
	ctx context.Context, src source.Source, all []source.Collection, field string,
) (bool, error) {
	with := fields.OneTermNotEqualSelector(field, "").String()
	absent := false
	for _, c := range all {
		if c.Objects == 0 || o.fieldsIn(c) == "" {
			continue
		}
		q := source.Query{Collection: c.ID, Fields: with, KeysOnly: true}
		var unreadable *source.UnreadableError
		switch err := src.Entries(ctx, q, func(entry.Entry) error { return input.ErrEnough }); {
		case errors.Is(err, input.ErrEnough), errors.As(err, &unreadable):
			// The read stopped early or at an unreadable object: the field may exist.
			return false, nil
		case err != nil:
			return false, err
		}
		absent = true
	}
	return absent, nil
}
