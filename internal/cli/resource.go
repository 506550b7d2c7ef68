package cli

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/source"
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
