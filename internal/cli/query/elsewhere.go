package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

// elsewhere returns the namespaces, other than the one that was asked for, in which an answer has objects; with a name,
// objects of that name.
func (o *getOptions) elsewhere(ctx context.Context, src source.Source, a answer, name string) []string {
	if !a.Resource.Namespaced || o.all {
		return nil
	}
	var found []string
	for _, c := range a.Collections {
		q := source.Query{Collection: c.ID, Selector: o.selector, Fields: o.fieldsIn(c), KeysOnly: true}
		if name != "" {
			q.Fields = "metadata.name=" + name
		}
		_ = src.Entries(ctx, q, func(e entry.Entry) error { // what cannot be read is left out of a hint
			if ns, _ := input.SplitKey(e.Key); len(found) == 0 || found[len(found)-1] != ns {
				found = append(found, ns)
			}
			return nil
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// missing is the error for an object that was asked for by name, with where else there is one of that name.
func (o *getOptions) missing(ctx context.Context, src source.Source, a answer, name string) error {
	err := fmt.Errorf("%s %q not found", a.Resource, name)
	if found := o.elsewhere(ctx, src, a, name); len(found) > 0 {
		return command.WithHint(err, "%s", namedIn(found))
	}
	return err
}

// inOneNamespace reports whether all that the answers can have is in the namespace that was asked for.
func (o *getOptions) inOneNamespace(answers []answer) bool {
	return !o.all && !slices.ContainsFunc(answers, func(a answer) bool { return !a.Resource.Namespaced })
}

// hintElsewhere says how to ask for what other namespaces have of the answers; it is empty if they have nothing.
func (o *getOptions) hintElsewhere(ctx context.Context, src source.Source, answers []answer) string {
	var found []string
	hint := inNamespaces
	for _, a := range answers {
		name := ""
		if len(a.names) > 0 {
			name, hint = a.names[0], namedIn
		}
		found = append(found, o.elsewhere(ctx, src, a, name)...)
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) > 0 {
		return "hint: " + hint(found) + "\n"
	}
	return ""
}

// nothingIn is said where there are no objects in the namespace that was asked for.
func (o *getOptions) nothingIn() string {
	return fmt.Sprintf("No resources found in %s namespace.\n", o.namespace)
}

// noteElsewhere says where there are objects, if there are none where a watch looks: it might be silent for ever.
func (o *watchOptions) noteElsewhere(ctx context.Context, s command.IO, src source.Source, answers []answer) {
	there := func(a answer) bool { return o.there(ctx, src, a) }
	if !o.print.table() || o.ignoreNotFound || !o.inOneNamespace(answers) || slices.ContainsFunc(answers, there) {
		return
	}
	if hint := o.hintElsewhere(ctx, src, answers); hint != "" {
		fmt.Fprint(s.Err, o.nothingIn(), hint)
	}
}

// there reports whether an answer has an object, or one that cannot be read.
func (o *getOptions) there(ctx context.Context, src source.Source, a answer) bool {
	return slices.ContainsFunc(o.queries(a), func(q collectionQuery) bool {
		q.KeysOnly = true
		return src.Entries(ctx, q.Query, func(entry.Entry) error { return input.ErrEnough }) != nil
	})
}

// namedIn says how to ask for an object that is in other namespaces.
func namedIn(found []string) string {
	if len(found) == 1 {
		return fmt.Sprintf("there is one in the namespace %s: -n %[1]s", found[0])
	}
	return fmt.Sprintf("there are some in the namespaces %s: name one with -n", strings.Join(found, ", "))
}

// inNamespaces says how to ask for what is in other namespaces.
func inNamespaces(found []string) string {
	if len(found) == 1 {
		return fmt.Sprintf("there are some in the namespace %s: -n %[1]s; -A asks for all namespaces", found[0])
	}
	return fmt.Sprintf("there are some in the namespaces %s: name one with -n, or ask for all with -A",
		strings.Join(found, ", "))
}
