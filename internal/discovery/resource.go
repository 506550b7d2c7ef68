package discovery

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/facts"
)

// Resource is an API resource that a Handler lists.
type Resource struct {
	schema.GroupVersionResource
	// The default of Kind, Singular and Namespaced is the value in Options.Server.Discovery.
	entry.ResourceInfo
	Verbs []string
	// Subresources are the subresources that clients may use, by their full names, such as pods/log.
	Subresources []metav1.APIResource
}

func Of(d *facts.Discovery) (all []Resource) {
	if d == nil {
		return nil
	}
	for _, g := range d.Groups {
		for version, resources := range g.VersionedResources {
			gv := schema.GroupVersion{Group: g.Group.Name, Version: version}
			subresources := map[string][]metav1.APIResource{}
			for _, r := range resources {
				if of, _, ok := strings.Cut(r.Name, "/"); ok {
					subresources[of] = append(subresources[of], r)
				}
			}
			for _, r := range resources {
				if len(r.Verbs) == 0 || strings.Contains(r.Name, "/") {
					continue
				}
				all = append(all, Resource{GroupVersionResource: gv.WithResource(r.Name), Verbs: r.Verbs,
					ResourceInfo: entry.ResourceInfo{Kind: r.Kind, Singular: r.SingularName, Namespaced: r.Namespaced,
						ShortNames: r.ShortNames, Categories: r.Categories},
					Subresources: subresources[r.Name]})
			}
		}
	}
	return all
}

type group struct {
	name     string
	versions []groupVersion // the served versions, the preferred one first
}

type groupVersion struct {
	schema.GroupVersion
	resources []Resource // the resources of the group-version, sorted by name
}

func named(resources []Resource, known *facts.Discovery) (all []Resource, omitted []schema.GroupVersionResource) {
	for _, r := range resources {
		if listed, ok := known.Resource(r.GroupVersionResource); ok {
			r.Namespaced = r.Namespaced || listed.Namespaced
			if r.Kind == "" {
				r.Kind = listed.Kind
			}
			if r.Singular == "" {
				r.Singular = listed.SingularName
			}
		}
		i := slices.IndexFunc(all, func(o Resource) bool { return o.GroupVersionResource == r.GroupVersionResource })
		switch {
		case r.Kind == "":
			if !slices.Contains(omitted, r.GroupVersionResource) {
				omitted = append(omitted, r.GroupVersionResource)
			}
		case i < 0:
			all = append(all, r)
		default:
			all[i] = merged(all[i], r)
		}
	}
	omitted = slices.DeleteFunc(omitted, func(gvr schema.GroupVersionResource) bool {
		return slices.ContainsFunc(all, func(r Resource) bool { return r.GroupVersionResource == gvr })
	})
	return all, omitted
}

// merged combines the descriptions of a resource in two collections. The collection b may have been stored without the
// resource's names.
func merged(a, b Resource) Resource {
	a.Namespaced = a.Namespaced || b.Namespaced
	if len(a.ShortNames) == 0 {
		a.ShortNames = b.ShortNames
	}
	if len(a.Categories) == 0 {
		a.Categories = b.Categories
	}
	a.Verbs = slices.Concat(a.Verbs, b.Verbs)
	slices.Sort(a.Verbs) // kube-apiserver also sorts the verbs
	a.Verbs = slices.Compact(a.Verbs)
	if len(a.Subresources) == 0 {
		a.Subresources = b.Subresources
	}
	return a
}

func grouped(resources []Resource, known *facts.Discovery) []group {
	var all []group
	for _, r := range resources {
		i := slices.IndexFunc(all, func(g group) bool { return g.name == r.Group })
		if i < 0 {
			i, all = len(all), append(all, group{name: r.Group})
		}
		g := &all[i]
		j := slices.IndexFunc(g.versions, func(v groupVersion) bool { return v.Version == r.Version })
		if j < 0 {
			j, g.versions = len(g.versions), append(g.versions, groupVersion{GroupVersion: r.GroupVersion()})
		}
		g.versions[j].resources = append(g.versions[j].resources, r)
	}
	order := known.Order()
	slices.SortFunc(all, func(a, b group) int { return order.Groups(a.name, b.name) })
	for _, g := range all {
		slices.SortFunc(g.versions, func(a, b groupVersion) int { return order.Versions(a.GroupVersion, b.GroupVersion) })
		for _, v := range g.versions {
			slices.SortFunc(v.resources, func(a, b Resource) int { return strings.Compare(a.Resource, b.Resource) })
		}
	}
	return all
}
