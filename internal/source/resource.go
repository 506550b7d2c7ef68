package source

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

type Resource struct {
	schema.GroupVersionResource
	entry.ResourceInfo
	Elsewhere []string
	// Retired says that the server serves the resource only in other versions. Arguments of commands must then name the
	// version.
	Retired bool
}

// String returns the resource's name for users, with its group unless that is the core group: pods, deployments.apps.
func (r Resource) String() string { return r.GroupResource().String() }

// Full returns the resource's name with its version and group: pods.v1., deployments.v1.apps.
func (r Resource) Full() string { return r.Resource + "." + r.Version + "." + r.Group }

func (r Resource) names() []string { return []string{r.Resource, r.Singular, strings.ToLower(r.Kind)} }

func (r Resource) Called(name string) bool {
	return slices.Contains(r.names(), name) || slices.Contains(r.ShortNames, name)
}

// Match returns the resource of known that the argument arg of a command means. known must be in kubectl's order of
// preference, or be the resources of a store with Elsewhere set. As in kubectl, arg is the plural, the singular, the
// kind in any case, or a short name. It may have a suffix: ".group", the beginning of a group, or ".version.group"
// ("pods.v1." for the core group). A short name matches only if no other name does.
func Match(arg string, known []Resource) (Resource, bool) {
	name, qualifier, _ := strings.Cut(strings.ToLower(arg), ".")
	if name == "" { // would match a resource without a singular
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

// fitting returns predicates for the resources that arg can mean, the preferred ones first. name is the part of arg
// before the first dot, and qualifier the part after it.
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
