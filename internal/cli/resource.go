package cli

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
)

// resource is what people call a resource, and what it is.
type resource struct {
	schema.GroupVersionResource
	entry.ResourceInfo
}

// resourceOf is that of a collection.
func resourceOf(c source.Collection) resource { return resource{c.GVR(), c.ResourceInfo()} }

// String is the shortest name that says which: pods, deployments.apps.
func (r resource) String() string { return r.GroupResource().String() }

// full is the name that leaves nothing open: pods.v1., deployments.v1.apps.
func (r resource) full() string { return r.Resource + "." + r.Version + "." + r.Group }

// splitKey returns the namespace, empty if there is none, and the name of an object by its key.
func splitKey(key string) (namespace, name string) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", key
	}
	return namespace, name
}

// matchResource returns those that arg names, as kubectl understands it:
// the plural, the singular, the kind in any case or a short name, alone or with
// ".group" or ".version.group" ("pods.v1." for the core group). Short names
// count only where nothing is called so by its full name.
func matchResource(arg string, known []resource) []resource {
	name, qualifier, qualified := strings.Cut(strings.ToLower(arg), ".")
	if name == "" { // it would match what has no singular
		return nil
	}
	inGroup := func(r resource) bool {
		if !qualified {
			return true
		}
		full := r.Version + "." + r.Group
		return qualifier == r.Group || qualifier == full || qualifier == strings.TrimSuffix(full, ".")
	}
	var byName, byShortName []resource
	for _, r := range known {
		switch {
		case !inGroup(r):
		case name == r.Resource, name == r.Singular, name == strings.ToLower(r.Kind):
			byName = append(byName, r)
		case slices.Contains(r.ShortNames, name):
			byShortName = append(byShortName, r)
		}
	}
	if len(byName) > 0 {
		return byName
	}
	return byShortName
}

// storedResources returns each resource of the collections once, in their order, as the one describes it that knows
// most.
func storedResources(collections []source.Collection) []resource {
	var all []resource
	for _, c := range collections {
		r := resourceOf(c)
		at := slices.IndexFunc(all, func(o resource) bool { return o.GroupVersionResource == r.GroupVersionResource })
		switch {
		case at < 0:
			all = append(all, r)
		case all[at].Kind == "" || c.Namespaced && !all[at].Namespaced: // what knows more of it
			all[at] = r
		}
	}
	return all
}

// names joins the names of the resources, each once.
func names(all []resource, name func(resource) string) string {
	var s []string
	for _, r := range all {
		if n := name(r); !slices.Contains(s, n) {
			s = append(s, n)
		}
	}
	return strings.Join(s, ", ")
}

// nameOf is what people call the resource of a collection.
func nameOf(c snapshot.Collection) string {
	return resource{c.Identity.GroupVersionResource, c.Resource}.String()
}

// scopeOfID is the scope of a collection.
func scopeOfID(id entry.Identity) string {
	return scope(source.Collection{
		Namespace: id.Namespace, LabelSelector: id.LabelSelector, FieldSelector: id.FieldSelector,
		ShardSelector: id.ShardSelector,
	})
}

// label is the resource, with its scope if it has one.
func label(c source.Collection) string {
	r := resourceOf(c)
	if sc := scope(c); sc != "all" {
		return r.String() + " (" + sc + ")"
	}
	return r.String()
}

// trouble is one line, whatever the error.
func trouble(l source.Live) string {
	return strings.Join(strings.Fields(cmp.Or(l.Trouble, l.Error)), " ")
}

// sourceWord is what the tables call the source of what is mirrored now.
func sourceWord(source string) string {
	switch source {
	case string(informer.FromDisk):
		return "offline"
	case string(informer.None):
		return "waiting"
	}
	return source
}

// inCategory returns those of a category, such as all.
func inCategory(name string, known []resource) []resource {
	var members []resource
	for _, r := range known {
		if slices.Contains(r.Categories, strings.ToLower(name)) {
			members = append(members, r)
		}
	}
	return members
}

// secrets is the resource that is not stored unless the user asks for it.
var secrets = resource{
	schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
	entry.ResourceInfo{Kind: "Secret", Singular: "secret", Namespaced: true},
}

// splitArgs takes "pods,nodes" apart, as kubectl does.
func splitArgs(args []string) []string {
	return strings.FieldsFunc(strings.Join(args, ","), func(r rune) bool { return r == ',' })
}

// onlyResources refuses what names an object.
func onlyResources(args []string) error {
	for _, arg := range splitArgs(args) {
		if r, name, ok := strings.Cut(arg, "/"); ok {
			return command.Usagef(
				"%q names an object, and resources are wanted; of one object write: %s --field-selector metadata.name=%s", arg, r,
				name)
		}
	}
	return nil
}

// membersOf returns the full names of the stored resources of a category, in the order in which a server lists its
// groups; none if it is not one.
func membersOf(category string, stored []source.Collection) []string {
	var members []resource
	known := storedResources(stored)
	if len(matchResource(category, known)) > 0 {
		return nil
	}
	for _, r := range known {
		if slices.Contains(r.Categories, strings.ToLower(category)) {
			members = append(members, r)
		}
	}
	slices.SortStableFunc(members, func(a, b resource) int {
		return cmp.Or(cmp.Compare(rank(a.Group), rank(b.Group)), cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Resource, b.Resource))
	})
	var all []string
	for _, r := range members {
		all = append(all, r.full())
	}
	return all
}

// rank puts the core group first, Kubernetes' other old groups next, and those of domains last.
func rank(group string) int {
	switch {
	case group == "":
		return 0
	case !strings.Contains(group, "."):
		return 1
	}
	return 2
}

// absentMembers are those of Kubernetes' own resources in a category that are not stored.
func absentMembers(category string, stored []source.Collection) string {
	var absent []string
	for _, gr := range source.Members(category) {
		if !slices.ContainsFunc(stored, func(c source.Collection) bool { return c.GVR().GroupResource() == gr }) {
			absent = append(absent, gr.String())
		}
	}
	return strings.Join(absent, ", ")
}
