package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/source"
)

// getOptions are the flags of get.
type getOptions struct {
	from              fromFlag
	output            outputFlag
	namespace         string
	all               bool
	selector          string
	fields            string
	collection        string
	showManagedFields bool
}

func newGet(s IO) *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:   "get RESOURCE [NAME…] --from FILE",
		Short: "Print stored objects; needs no API server",
		Long: `Print objects from a store, also while larder sync holds it. No API server is needed. Standard error says how
old the data is. As with kubectl, the namespace is "default" unless -n or -A is given. --field-selector takes any field
that is a text, a number or a boolean, custom resources' too; where an object does not have it, it is empty.`,
		Example: `  larder get pods --from cluster.db
  larder get deploy -A -l app=web -o name --from cluster.db
  larder get pods -A --field-selector status.phase!=Running,spec.nodeName=worker-1 --from cluster.db
  larder get node/worker-1 -o yaml --from cluster.db`,
		Args: needArgs(1, -1, "a resource, and perhaps names"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGet(cmd.Context(), s, &o, args)
		},
	}
	o.from.add(cmd)
	o.output.add(cmd, "table", "name", "json", "yaml")
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "default", "the objects' `NAMESPACE`")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "objects of all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "label `SELECTOR`, as in app=web,tier!=db")
	cmd.Flags().StringVar(&o.fields, "field-selector", "", "field `SELECTOR`, as in status.phase=Running,spec.nodeName!=a")
	cmd.Flags().StringVar(&o.collection, "collection", "", "the `ID` of the collection to read, as larder status prints it, or its beginning")
	cmd.Flags().BoolVar(&o.showManagedFields, "show-managed-fields", false, "print managedFields with -o json and yaml")
	return cmd
}

func runGet(ctx context.Context, s IO, o *getOptions, args []string) error {
	name, objects, err := o.parse(args)
	if err != nil {
		return err
	}
	src, err := o.from.open(ctx, s)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // it was only read
	status, err := src.Status(ctx)
	if err != nil {
		return readError(o.from.path, err)
	}
	chosen, err := choose(o.from.path, status.Collections, request{
		resource: name, namespace: o.namespace, all: o.all, selector: o.selector, fields: o.fields, collection: o.collection,
	})
	if err != nil {
		return err
	}
	for _, c := range chosen.collections {
		fmt.Fprintln(s.Err, freshness(s, chosen.resource, c, len(chosen.collections) > 1))
	}
	for _, note := range chosen.notes {
		fmt.Fprintln(s.Err, "note:", note)
	}
	return o.print(ctx, s, src, chosen, objects)
}

// parse checks the flags and takes the arguments apart: a resource, and names.
func (o *getOptions) parse(args []string) (resourceName string, objects []string, err error) {
	if err := errors.Join(o.from.check(), o.output.check()); err != nil {
		return "", nil, usageError{err}
	}
	resourceName, objects = args[0], args[1:]
	if strings.Contains(resourceName, ",") {
		return "", nil, usagef("get prints one resource at a time, not %q", resourceName)
	}
	if r, name, ok := strings.Cut(resourceName, "/"); ok {
		if len(objects) > 0 || r == "" || name == "" {
			return "", nil, usagef("write either RESOURCE NAME or one RESOURCE/NAME, not %q", strings.Join(args, " "))
		}
		resourceName, objects = r, []string{name}
	}
	sel, err := labels.Parse(o.selector)
	if err != nil {
		return "", nil, usagef("label selector %q: %w", o.selector, err)
	}
	o.selector = sel.String()
	byField, err := fields.ParseSelector(o.fields)
	if err != nil {
		return "", nil, usagef("field selector %q: %w", o.fields, err)
	}
	o.fields = byField.String()
	switch {
	case len(objects) > 0 && (o.selector != "" || o.fields != ""):
		return "", nil, usagef("give either names or a selector")
	case len(objects) > 0 && o.all:
		return "", nil, usagef("an object can not be asked for by name across all namespaces; use -n")
	}
	return resourceName, objects, nil
}

// print prints the objects, and fails if one that was named is not there.
func (o *getOptions) print(ctx context.Context, s IO, src source.Source, chosen choice, objects []string) error {
	out := bufio.NewWriterSize(s.Out, 1<<16)
	direct := s.Out
	s.Out = out
	namespaced := chosen.resource.Namespaced
	p := newPrinter(s, o.output.format, len(objects) == 1, namespaced && o.all)
	s.Out = direct

	found, missing := 0, []string{}
	show := func(c source.Collection) func(*unstructured.Unstructured) error {
		return func(u *unstructured.Unstructured) error {
			found++
			return p.object(o.dress(u, c))
		}
	}
	var damaged source.UnreadableError
	for _, q := range o.queries(chosen, objects) {
		before := found
		err := src.Objects(ctx, q.Query, show(q.collection))
		var unreadable *source.UnreadableError
		switch {
		case errors.As(err, &unreadable): // all the others have come
			damaged.Merge(unreadable)
		case err != nil:
			if o.output.format == "table" { // a JSON or YAML list that is not whole must not look so
				err = errors.Join(err, p.finish())
			}
			return errors.Join(readError(o.from.path, err), out.Flush())
		case q.Name != "" && found == before:
			missing = append(missing, q.Name)
		}
	}
	if err := errors.Join(p.finish(), out.Flush()); err != nil {
		return err
	}
	switch {
	case damaged.Count > 0:
		return readError(o.from.path, errors.Join(&damaged, notFound(chosen.resource, missing)))
	case found == 0 && len(missing) == 0 && o.output.format == "table":
		o.nothing(s, namespaced)
	}
	return errors.Join(notFound(chosen.resource, missing), o.noteFields(ctx, s, src, chosen, found > 0))
}

// collectionQuery is a query and the collection it goes to.
type collectionQuery struct {
	source.Query
	collection source.Collection
}

func (o *getOptions) queries(chosen choice, objects []string) []collectionQuery {
	if len(objects) == 0 {
		objects = []string{""}
	}
	var all []collectionQuery
	for _, c := range chosen.collections {
		for _, name := range objects {
			q := source.Query{Collection: c.ID, Name: name, Selector: o.selector, Fields: o.fieldsIn(c)}
			q.HeadOnly = o.output.format == "table" || o.output.format == "name"
			if chosen.resource.Namespaced && !o.all {
				q.Namespace = o.namespace
			}
			all = append(all, collectionQuery{q, c})
		}
	}
	return all
}

// dress returns the object as it is to be printed. It does not change u, which is shared.
func (o *getOptions) dress(u *unstructured.Unstructured, c source.Collection) *unstructured.Unstructured {
	object := maps.Clone(u.Object)
	if u.GetKind() == "" { // a typed collection stores no TypeMeta
		object["kind"] = c.Kind
		object["apiVersion"] = schema.GroupVersion{Group: c.Group, Version: c.Version}.String()
	}
	if meta, ok := object["metadata"].(map[string]any); ok && !o.showManagedFields && meta["managedFields"] != nil {
		meta = maps.Clone(meta)
		delete(meta, "managedFields")
		object["metadata"] = meta
	}
	return &unstructured.Unstructured{Object: object}
}

func (o *getOptions) nothing(s IO, namespaced bool) {
	if namespaced && !o.all {
		fmt.Fprintf(s.Err, "No resources found in %s namespace.\n", o.namespace)
		return
	}
	fmt.Fprintln(s.Err, "No resources found")
}

func notFound(r resource, missing []string) error {
	var all []error
	for _, name := range missing {
		all = append(all, fmt.Errorf("%s %q not found", r, name))
	}
	return errors.Join(all...)
}

// freshness is the line that says how old the data is.
func freshness(s IO, r resource, c source.Collection, withScope bool) string {
	what := r.String()
	if withScope {
		what += " (" + scope(c) + ")"
	}
	heard := "the server has never been heard"
	if !c.LastContact.IsZero() {
		heard = "as of " + ageOf(s.Now(), c.LastContact) + " ago"
	}
	rv := c.ResourceVersion
	if rv == "" {
		rv = "none"
	}
	from := "from disk"
	switch {
	case !c.TakenAt.IsZero():
		from, heard = "from a snapshot", "taken "+ageOf(s.Now(), c.TakenAt)+" ago"
	case c.Live == nil:
	case c.Live.Source == "live":
		from = "live from the running sync"
	case !c.Persistent:
		from = "from the running sync's memory, which is out of contact"
	default:
		from = "from disk; the running sync is out of contact"
	}
	return fmt.Sprintf("%s: %s, %s, resourceVersion %s", what, from, heard, rv)
}
