package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

// target is a resource or category that the user wrote, with the names of the requested objects; no names means all
// objects.
type target struct {
	resource string
	names    []string
	// several says that the command line has more than one target, that is, resource or category.
	several bool
}

// answer holds the collections that answer a target of the command line, or one resource of a target that is a
// category.
type answer struct {
	input.Choice
	names []string
}

// parse checks the flags and parses the arguments like kubectl: either comma-separated resources followed by names of
// objects, or any number of RESOURCE/NAME.
func (o *getOptions) parse(args []string) ([]target, error) {
	args = o.from.LeadingFile(args)
	if err := errors.Join(o.from.Check(), o.print.check()); err != nil {
		return nil, command.Usage(err)
	}
	if len(args) == 0 {
		return nil, command.Usagef("%s is a file: name what is to be read of it, too, as in: larder get %[1]s pods -A",
			o.from.Path)
	}
	if o.namespace == "" { // like kubectl, which takes an empty -n as the default namespace
		o.namespace = defaultNamespace
	}
	targets, err := targetsOf(args)
	if err != nil {
		return nil, err
	}
	if o.selector, o.fields, err = input.CanonicalSelectors(o.selector, o.fields); err != nil {
		return nil, err
	}
	named := len(targets[0].names) > 0
	switch {
	case named && (o.selector != "" || o.fields != ""):
		return nil, command.Usagef("give either names or a selector")
	case named && o.all:
		return nil, command.Usagef("an object cannot be asked for by name across all namespaces; use -n")
	case o.collection != "" && len(targets) > 1:
		return nil, command.Usagef("--collection is one resource's; ask for one resource at a time")
	}
	return targets, nil
}

// targetsOf parses the arguments into at least one target, that is, a resource and the names of its objects. Either all
// targets have names, or none has.
func targetsOf(args []string) ([]target, error) {
	if strings.Contains(args[0], "/") {
		return namedTargets(args)
	}
	var all []target
	for _, r := range strings.Split(args[0], ",") {
		if r == "" {
			return nil, command.Usagef("%q names no resource before or after a comma", args[0])
		}
		for _, name := range args[1:] {
			if strings.Contains(name, "/") {
				return nil, command.Usagef("write either RESOURCE NAME… or RESOURCE/NAME…, not %q", strings.Join(args, " "))
			}
		}
		all = append(all, target{resource: r, names: args[1:]})
	}
	return mark(all), nil
}

// namedTargets parses RESOURCE/NAME arguments. It combines adjacent arguments with one resource into one target.
func namedTargets(args []string) ([]target, error) {
	var all []target
	for _, arg := range args {
		r, name, ok := strings.Cut(arg, "/")
		if !ok || r == "" || name == "" || strings.ContainsAny(r, ",") || strings.Contains(name, "/") {
			return nil, command.Usagef("write either RESOURCE NAME… or RESOURCE/NAME…, not %q", strings.Join(args, " "))
		}
		if n := len(all); n > 0 && all[n-1].resource == r {
			all[n-1].names = append(all[n-1].names, name)
			continue
		}
		all = append(all, target{resource: r, names: []string{name}})
	}
	return mark(all), nil
}

func mark(all []target) []target {
	for i := range all {
		all[i].several = len(all) > 1
	}
	return all
}

// choose finds the stored collections that answer the targets. After an error for a target, it still returns the other
// answers.
func (o *getOptions) choose(stored []source.Collection, targets []target) ([]answer, error) {
	var all []answer
	var failed []error
	for _, t := range targets {
		names := []string{t.resource}
		members := input.MembersOf(t.resource, stored)
		if len(members) > 0 {
			names = members
		}
		for _, name := range names {
			c, err := input.Choose(o.from.Path, stored, input.Request{
				Resource: name, Namespace: o.namespace, All: o.all, Selector: o.selector, Fields: o.fields,
				Collection: o.collection,
			})
			if err != nil {
				failed = append(failed, err)
				continue
			}
			all = append(all, answer{c, t.names})
		}
		if len(members) > 0 {
			if absent := input.AbsentMembers(t.resource, stored); absent != "" && len(all) > 0 {
				last := &all[len(all)-1]
				last.Notes = append(last.Notes, fmt.Sprintf("of the category %s these are not stored: %s", t.resource, absent))
			}
		}
	}
	return all, errors.Join(failed...)
}

func (o *getOptions) completeFormats(
	_ *cobra.Command, _ []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.print.watched = o.print.watched || o.watch
	isDefault := func(f string) bool { return f == formatTable }
	offered := slices.DeleteFunc(o.print.formats(), isDefault)
	return command.WithPrefix(offered, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// complete is the shell completion of larder get. It offers resources and categories for the first argument. After a
// resource it offers names of its objects, and after RESOURCE/NAME more RESOURCE/NAME arguments. Without a store it
// offers well-known resources.
func (o *getOptions) complete(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	args = o.from.LeadingFile(args)
	if o.from.Path = command.OrVariable(o.from.Path); o.from.Path == "" && len(args) == 0 {
		return command.WithPrefix(source.WellKnown(), toComplete), cobra.ShellCompDirectiveNoFileComp
	}
	var all []cobra.Completion
	directive := cobra.ShellCompDirectiveNoFileComp
	o.from.WithStore(cmd.Context(), func(ctx context.Context, src source.Source, stored []source.Collection) {
		slashed := len(args) == 0 || strings.Contains(args[0], "/")
		if name, _, ok := strings.Cut(toComplete, "/"); ok && slashed {
			for _, object := range o.names(ctx, src, stored, name, nil) {
				all = append(all, name+"/"+object)
			}
			return
		}
		switch {
		case len(args) == 0:
			all = input.CompleteResources(stored, toComplete)
		case slashed:
			for _, r := range input.Callable(stored) {
				all = append(all, r+"/")
			}
			directive |= cobra.ShellCompDirectiveNoSpace
		default:
			all = o.names(ctx, src, stored, args[0], args[1:])
		}
	})
	return command.WithPrefix(all, toComplete), directive
}

func (o *getOptions) names(
	ctx context.Context, src source.Source, stored []source.Collection, resource string, but []string,
) []string {
	c, err := input.Choose(o.from.Path, stored, input.Request{Resource: resource, Namespace: o.namespace, All: o.all,
		Collection: o.collection})
	if err != nil {
		return nil
	}
	var all []string
	for _, q := range o.queries(answer{Choice: c}) {
		for _, key := range input.FirstKeys(ctx, src, q.Query) {
			if _, name := input.SplitKey(key); !slices.Contains(but, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func (o *getOptions) completeNamespaces(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.from.LeadingFile(args)
	var all []cobra.Completion
	o.from.WithStore(cmd.Context(), func(ctx context.Context, src source.Source, stored []source.Collection) {
		for _, c := range stored {
			switch {
			case c.Namespace != "":
				all = append(all, c.Namespace)
			case c.Resource == "namespaces" && c.Group == "":
				all = append(all, o.names(ctx, src, stored, "namespaces", nil)...)
			}
		}
		if len(all) > 0 {
			return
		}
		for _, c := range stored {
			if c.Namespaced {
				all = append(all, input.NamespacesOf(ctx, src, source.Query{Collection: c.ID})...)
			}
		}
	})
	slices.Sort(all)
	return command.WithPrefix(slices.Compact(all), toComplete), cobra.ShellCompDirectiveNoFileComp
}

func (o *getOptions) completeCollections(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.from.LeadingFile(args)
	var all []cobra.Completion
	o.from.WithStore(cmd.Context(), func(_ context.Context, _ source.Source, stored []source.Collection) {
		for _, c := range stored {
			r := c.Named()
			all = append(all, cobra.CompletionWithDesc(c.ID, r.String()+", "+input.Scope(c)+", "+c.Representation))
		}
	})
	return command.WithPrefix(all, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// otherNamespaces returns the namespaces, other than the requested one, that contain objects of the answer. If a name
// is given, only objects of that name count.
func (o *getOptions) otherNamespaces(ctx context.Context, src source.Source, a answer, name string) []string {
	if !a.Resource.Namespaced || o.all {
		return nil
	}
	var found []string
	for _, c := range a.Collections {
		q := source.Query{Collection: c.ID, Selector: o.selector, Fields: o.fieldsIn(c), KeysOnly: true}
		if name != "" {
			q.Fields = "metadata.name=" + name
		}
		// Errors are ignored: the hint leaves out namespaces with unreadable objects.
		_ = src.Entries(ctx, q, func(e entry.Entry) error {
			if ns, _ := input.SplitKey(e.Key); len(found) == 0 || found[len(found)-1] != ns {
				found = append(found, ns)
			}
			return nil
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// missing returns the not-found error for a named object. Its hint names other namespaces with an object of that name.
func (o *getOptions) missing(ctx context.Context, src source.Source, a answer, name string) error {
	err := fmt.Errorf("%s %q not found", a.Resource, name)
	if found := o.otherNamespaces(ctx, src, a, name); len(found) > 0 {
		return command.WithHint(err, "%s", namedIn(found))
	}
	return err
}

func (o *getOptions) inOneNamespace(answers []answer) bool {
	return !o.all && !slices.ContainsFunc(answers, func(a answer) bool { return !a.Resource.Namespaced })
}

func (o *getOptions) otherNamespacesHint(ctx context.Context, src source.Source, answers []answer) string {
	var found []string
	hint := inNamespaces
	for _, a := range answers {
		name := ""
		if len(a.names) > 0 {
			name, hint = a.names[0], namedIn
		}
		found = append(found, o.otherNamespaces(ctx, src, a, name)...)
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) > 0 {
		return "hint: " + hint(found) + "\n"
	}
	return ""
}

func (o *getOptions) nothingIn() string {
	return fmt.Sprintf("No resources found in %s namespace.\n", o.namespace)
}

// noteOtherNamespaces prints a hint if only namespaces other than the watched namespace have objects: the watch might
// stay silent for ever.
func (o *watchOptions) noteOtherNamespaces(ctx context.Context, s command.IO, src source.Source, answers []answer) {
	there := func(a answer) bool { return o.there(ctx, src, a) }
	if !o.print.table() || o.ignoreNotFound || !o.inOneNamespace(answers) || slices.ContainsFunc(answers, there) {
		return
	}
	if hint := o.otherNamespacesHint(ctx, src, answers); hint != "" {
		fmt.Fprint(s.Err, o.nothingIn(), hint)
	}
}

// there reports whether an answer's collections contain the named object, readable or not.
func (o *getOptions) there(ctx context.Context, src source.Source, a answer) bool {
	return slices.ContainsFunc(o.queries(a), func(q collectionQuery) bool {
		q.KeysOnly = true
		return src.Entries(ctx, q.Query, func(entry.Entry) error { return input.ErrEnough }) != nil
	})
}

func namedIn(found []string) string {
	if len(found) == 1 {
		return fmt.Sprintf("there is one in the namespace %s: -n %[1]s", found[0])
	}
	return fmt.Sprintf("there are some in the namespaces %s: name one with -n", strings.Join(found, ", "))
}

func inNamespaces(found []string) string {
	if len(found) == 1 {
		return fmt.Sprintf("there are some in the namespace %s: -n %[1]s; -A asks for all namespaces", found[0])
	}
	return fmt.Sprintf("there are some in the namespaces %s: name one with -n, or ask for all with -A",
		strings.Join(found, ", "))
}
