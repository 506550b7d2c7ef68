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

// Resource is a resource, and the names that people call it by.
type Resource = source.Resource

// SplitKey returns the namespace, empty if there is none, and the name of an object by its key.
func SplitKey(key string) (namespace, name string) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", key
	}
	return namespace, name
}

// StoredResources returns each resource of the collections once, in their order, as the one describes it that knows
// most.
func StoredResources(collections []source.Collection) []Resource {
	var all []Resource
	for _, c := range collections {
		r := c.Named()
		at := slices.IndexFunc(all, func(o Resource) bool { return o.GroupVersionResource == r.GroupVersionResource })
		switch {
		case at < 0:
			all = append(all, r)
		case all[at].Kind == "" || c.Namespaced && !all[at].Namespaced: // what knows more of it
			all[at] = r
		}
	}
	return all
}

// Names joins the names of the resources, each once.
func Names(all []Resource, name func(Resource) string) string {
	var s []string
	for _, r := range all {
		if n := name(r); !slices.Contains(s, n) {
			s = append(s, n)
		}
	}
	return strings.Join(s, ", ")
}

// NameOf is what people call the resource of a collection.
func NameOf(c snapshot.Collection) string {
	return c.Identity.GroupResource().String()
}

// ScopeOfID is the scope of a collection.
func ScopeOfID(id entry.Identity) string {
	return Scope(source.Collection{
		Namespace: id.Namespace, LabelSelector: id.LabelSelector, FieldSelector: id.FieldSelector,
		ShardSelector: id.ShardSelector,
	})
}

// Label is the resource, with its scope if it has one.
func Label(c source.Collection) string {
	r := c.Named()
	if sc := Scope(c); sc != "all" {
		return r.String() + " (" + sc + ")"
	}
	return r.String()
}

// Trouble is one line, whatever the error.
func Trouble(l source.Live) string {
	return strings.Join(strings.Fields(cmp.Or(l.Trouble, l.Error)), " ")
}

// SourceWord is what the tables call the source of what is mirrored now.
func SourceWord(l source.Live) string {
	switch {
	case l.Forbidden != "":
		return "forbidden"
	case l.Uncommitted:
		return "behind"
	case l.Source == string(informer.FromDisk) && l.ListOnly:
		return "listed" // the note says more
	case l.Source == string(informer.FromDisk) && Trouble(l) == "":
		return "connecting"
	case l.Source == string(informer.FromDisk):
		return "offline"
	case l.Source == string(informer.None):
		return "waiting"
	}
	return l.Source
}

// InCategory returns those of a category, such as all.
func InCategory(name string, known []Resource) []Resource {
	var members []Resource
	for _, r := range known {
		if slices.Contains(r.Categories, strings.ToLower(name)) {
			members = append(members, r)
		}
	}
	return members
}

// Secrets is the resource that is not stored unless the user asks for it.
var Secrets = Resource{
	GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
	ResourceInfo:         entry.ResourceInfo{Kind: "Secret", Singular: "secret", Namespaced: true},
}

// SplitArgs takes "pods,nodes" apart, as kubectl does.
func SplitArgs(args []string) []string {
	return strings.FieldsFunc(strings.Join(args, ","), func(r rune) bool { return r == ',' })
}

// OnlyResources refuses what names an object.
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

// MembersOf returns the full names of the stored resources of a category, in the order in which a server lists its
// groups; none if it is not one.
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

// AbsentMembers are those of Kubernetes' own resources in a category that are not stored.
func AbsentMembers(category string, stored []source.Collection) string {
	var absent []string
	for _, gr := range source.Members(category) {
		if !slices.ContainsFunc(stored, func(c source.Collection) bool { return c.GVR().GroupResource() == gr }) {
			absent = append(absent, gr.String())
		}
	}
	return strings.Join(absent, ", ")
}
