package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/source"
)

// mostElsewhere is how many other namespaces a hint names.
const mostElsewhere = 3

// elsewhere returns a few of the namespaces, other than the one that was asked for, in which an answer has objects; with
// a name, objects of that name. It looks at no more than mostNames objects of each collection: it is for a hint.
func (g *getting) elsewhere(ctx context.Context, a answer, name string) []string {
	if !a.resource.Namespaced || g.o.all {
		return nil
	}
	var found []string
	for _, c := range a.collections {
		q := source.Query{Collection: c.ID, Selector: g.o.selector, Fields: g.o.fieldsIn(c), HeadOnly: true, NameOnly: true}
		if name != "" {
			q.Fields = "metadata.name=" + name
		}
		n := 0
		_ = g.src.Objects(ctx, q, func(u *unstructured.Unstructured) error { // what can not be read is no hint
			if ns := u.GetNamespace(); !slices.Contains(found, ns) {
				found = append(found, ns)
			}
			if n++; n >= mostNames || len(found) >= mostElsewhere {
				return errEnough
			}
			return nil
		})
	}
	return found
}

// inNamespaces says how to ask for what is in other namespaces.
func inNamespaces(found []string) string {
	if len(found) == 1 {
		return fmt.Sprintf("there are some in the namespace %s: -n %[1]s; -A asks for all namespaces", found[0])
	}
	return fmt.Sprintf("there are some in the namespaces %s: name one with -n, or ask for all with -A",
		strings.Join(found, ", "))
}
