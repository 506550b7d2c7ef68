package input

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
)

// Resource is a Kubernetes resource with its names: plural, singular, kind, short names and categories.
type Resource = source.Resource

// SplitKey splits an object's key, such as web/shop, into namespace and name. The namespace of a cluster-scoped object
// is "".
func SplitKey(key string) (namespace, name string) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", key
	}
	return namespace, name
}

// StoredResources returns the resources of the collections, without duplicates and in the order of the collections. If
// collections of one resource describe it differently, it returns the most complete description.
func StoredResources(collections []source.Collection) []Resource {
	var all []Resource
	for _, c := range collections {
		r := c.Named()
		at := slices.IndexFunc(all, func(o Resource) bool { return o.GroupVersionResource == r.GroupVersionResource })
		switch {
		case at < 0:
			all = append(all, r)
		case all[at].Kind == "" || c.Namespaced && !all[at].Namespaced:
			// Of several descriptions of a resource the most complete description is kept.
			all[at] = r
		}
	}
	return all
}

// Names joins the names that the function returns for the resources. Equal names are listed once.
func Names(all []Resource, name func(Resource) string) string {
	var s []string
	for _, r := range all {
		if n := name(r); !slices.Contains(s, n) {
			s = append(s, n)
		}
	}
	return strings.Join(s, ", ")
}

// NameOf returns the name of a collection's resource with its group, such as deployments.apps.
func NameOf(c snapshot.Collection) string {
	return c.Identity.GroupResource().String()
}

// ScopeOfID describes which objects of its resource a collection contains: the namespace and the selectors.
func ScopeOfID(id entry.Identity) string {
	return Scope(source.Collection{
		Namespace: id.Namespace, LabelSelector: id.LabelSelector, FieldSelector: id.FieldSelector,
		ShardSelector: id.ShardSelector,
	})
}

// Label returns a collection's resource for messages, followed by its namespace and selectors unless it contains all
// objects.
func Label(c source.Collection) string {
	r := c.Named()
	if sc := Scope(c); sc != "all" {
		return r.String() + " (" + sc + ")"
	}
	return r.String()
}

// LiveError returns the error of a mirrored collection on one line; "" if it has no error.
func LiveError(l source.Live) string {
	return strings.Join(strings.Fields(cmp.Or(l.Trouble, l.Error)), " ")
}

// SourceWord returns the word that tables show for the state of a mirrored collection, such as live.
func SourceWord(l source.Live) string {
	switch {
	case l.Forbidden != "":
		return "forbidden"
	case l.Uncommitted:
		return "behind"
	case l.Source == string(informer.FromDisk) && l.ListOnly:
		return "listed" // a resource that can only be listed: a note has the details
	case l.Source == string(informer.FromDisk) && LiveError(l) == "":
		return "connecting"
	case l.Source == string(informer.FromDisk):
		return "offline"
	case l.Source == string(informer.None):
		return "waiting"
	}
	return l.Source
}

// InCategory returns the known resources in a category, such as all.
func InCategory(name string, known []Resource) []Resource {
	var members []Resource
	for _, r := range known {
		if slices.Contains(r.Categories, strings.ToLower(name)) {
			members = append(members, r)
		}
	}
	return members
}

// Secrets is the resource Secrets, which is mirrored only if the user requests it.
var Secrets = Resource{
	GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
	ResourceInfo:         entry.ResourceInfo{Kind: "Secret", Singular: "secret", Namespaced: true},
}

// SplitArgs splits arguments at commas into names of resources, like kubectl.
func SplitArgs(args []string) []string {
	return strings.FieldsFunc(strings.Join(args, ","), func(r rune) bool { return r == ',' })
}

// OnlyResources returns an error if an argument is RESOURCE/NAME, for commands that select whole resources.
func OnlyResources(args []string) error {
	for _, arg := range SplitArgs(args) {
		if r, name, ok := strings.Cut(arg, "/"); ok {
			return command.Usagef(
				"%q names an object, and resources are wanted; of one object write: %s --field-selector metadata.name=%s", arg, r,
				name)
		}
	}
	return nil
}

// MembersOf returns the full names of the stored resources in a category, in the server's order of groups. It returns
// none if a stored resource itself has the category's name.
func MembersOf(category string, stored []source.Collection) []string {
	var members []Resource
	known := StoredResources(stored)
	if _, ok := source.Match(category, known); ok {
		return nil
	}
	for _, r := range known {
		same := func(m Resource) bool { return m.GroupResource() == r.GroupResource() }
		if slices.Contains(r.Categories, strings.ToLower(category)) && !r.Retired && !slices.ContainsFunc(members, same) {
			members = append(members, r)
		}
	}
	slices.SortStableFunc(members, func(a, b Resource) int {
		return cmp.Or(facts.Order{}.Groups(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	var all []string
	for _, r := range members {
		all = append(all, r.Full())
	}
	return all
}

// AbsentMembers returns the built-in resources of a category that are not stored.
func AbsentMembers(category string, stored []source.Collection) string {
	var absent []string
	for _, gr := range source.Members(category) {
		if !slices.ContainsFunc(stored, func(c source.Collection) bool { return c.GVR().GroupResource() == gr }) {
			absent = append(absent, gr.String())
		}
	}
	return strings.Join(absent, ", ")
}

const mostSuggested = 3

// DidYouMean returns "did you mean pods?" with the resources whose names resemble arg; "" without any.
func DidYouMean(arg string, known []Resource) string {
	near := nearest(arg, known)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}

func nearest(arg string, known []Resource) (near []string) {
	name, _, _ := strings.Cut(strings.ToLower(arg), ".")
	if len(name) < 3 { // names of one or two letters resemble every word, so they are not suggested
		return nil
	}
	for _, r := range known {
		words := append([]string{r.Resource, r.Singular, strings.ToLower(r.Kind)}, r.ShortNames...)
		if s := r.String(); len(near) < mostSuggested && !slices.Contains(near, s) &&
			slices.ContainsFunc(words, func(word string) bool {
				return word != "" && (strings.HasPrefix(word, name) || command.Near(name, word))
			}) {
			near = append(near, s)
		}
	}
	return near
}
