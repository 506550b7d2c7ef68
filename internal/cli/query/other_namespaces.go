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
