package source

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

// Resource is a resource, and the names that people call it by.
type Resource struct {
	schema.GroupVersionResource
	entry.ResourceInfo
	// Elsewhere are those of its names, in lower case, that mean another resource.
	Elsewhere []string
	// Retired: the server serves the resource in other versions only. It is called by its full name alone.
	Retired bool
}

// String is the shortest name that says which: pods, deployments.apps.
func (r Resource) String() string { return r.GroupResource().String() }

// Full is the name that leaves nothing open: pods.v1., deployments.v1.apps.
func (r Resource) Full() string { return r.Resource + "." + r.Version + "." + r.Group }

// names returns the names by which the resource is called before short names count.
func (r Resource) names() []string { return []string{r.Resource, r.Singular, strings.ToLower(r.Kind)} }

// Called reports whether name, in lower case, is one of the names of the resource.
func (r Resource) Called(name string) bool {
	return slices.Contains(r.names(), name) || slices.Contains(r.ShortNames, name)
}

// Match returns the resource that arg names. known is in the order of facts.Order, or is of a store, whose resources
// have Elsewhere. arg is understood as kubectl does: the plural, the singular, the kind in any case or a short name,
// alone or with ".group", the beginning of a group, or ".version.group" ("pods.v1." for the core group). Short names
// count only where no resource has that name otherwise.
func Match(arg string, known []Resource) (Resource, bool) {
	name, qualifier, _ := strings.Cut(strings.ToLower(arg), ".")
	if name == "" { // it would match a resource without a singular
		return Resource{}, false
	}
	for _, fits := range fitting(name, strings.ToLower(arg), qualifier) {
		var short *Resource
		for i := range known {
			switch r := &known[i]; {
			case !fits(r):
			case slices.Contains(r.names(), name):
				return *r, true
			case short == nil && slices.Contains(r.ShortNames, name):
				short = r
			}
		}
		if short != nil {
			return *short, true
		}
	}
	return Resource{}, false
}

// fitting returns which resources a name can mean by its qualifier, the best fit first.
func fitting(name, arg, qualifier string) []func(*Resource) bool {
	if name == arg {
		return []func(*Resource) bool{func(r *Resource) bool { return !r.Retired && !slices.Contains(r.Elsewhere, name) }}
	}
	return []func(*Resource) bool{
		func(r *Resource) bool { return qualifier == r.Version+"."+r.Group },
		func(r *Resource) bool { return !r.Retired && qualifier == r.Group },
		func(r *Resource) bool { return r.Group == "" && qualifier == r.Version },
		func(r *Resource) bool { return !r.Retired && qualifier != "" && strings.HasPrefix(r.Group, qualifier) },
	}
}
