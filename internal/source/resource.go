package source

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/facts"
)

// Resource is an API resource with its names.
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

// Called reports whether name, in lower case, is one of the names of the resource.
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

// shortNames has kubectl's short names of built-in resources. It serves stores of Go programs, which need not store
// short names.
var shortNames = map[schema.GroupResource][]string{
	{Resource: "configmaps"}:                                               {"cm"},
	{Resource: "endpoints"}:                                                {"ep"},
	{Resource: "events"}:                                                   {"ev"},
	{Resource: "limitranges"}:                                              {"limits"},
	{Resource: "namespaces"}:                                               {"ns"},
	{Resource: "nodes"}:                                                    {"no"},
	{Resource: "persistentvolumeclaims"}:                                   {"pvc"},
	{Resource: "persistentvolumes"}:                                        {"pv"},
	{Resource: "pods"}:                                                     {"po"},
	{Resource: "replicationcontrollers"}:                                   {"rc"},
	{Resource: "resourcequotas"}:                                           {"quota"},
	{Resource: "serviceaccounts"}:                                          {"sa"},
	{Resource: "services"}:                                                 {"svc"},
	{Group: "apps", Resource: "daemonsets"}:                                {"ds"},
	{Group: "apps", Resource: "deployments"}:                               {"deploy"},
	{Group: "apps", Resource: "replicasets"}:                               {"rs"},
	{Group: "apps", Resource: "statefulsets"}:                              {"sts"},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:           {"hpa"},
	{Group: "batch", Resource: "cronjobs"}:                                 {"cj"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {"csr"},
	{Group: "events.k8s.io", Resource: "events"}:                           {"ev"},
	{Group: "networking.k8s.io", Resource: "ingresses"}:                    {"ing"},
	{Group: "networking.k8s.io", Resource: "networkpolicies"}:              {"netpol"},
	{Group: "policy", Resource: "poddisruptionbudgets"}:                    {"pdb"},
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:              {"pc"},
	{Group: "storage.k8s.io", Resource: "storageclasses"}:                  {"sc"},
}

// describe returns the stored description of a collection's resource. It fills in missing fields, since a program may
// store objects without a description. scopeKnown is false if the scope (namespaced or not) is a guess.
func describe(info entry.Info) (r entry.ResourceInfo, scopeKnown bool) {
	r = info.Resource
	gvr := info.Identity.GroupVersionResource
	r.Namespaced, scopeKnown = scopeOf(info)
	if r.Kind == "" {
		r.Kind = kindOf(gvr)
	}
	if r.Singular == "" {
		r.Singular = strings.ToLower(r.Kind)
	}
	if r.ShortNames == nil {
		r.ShortNames = shortNames[gvr.GroupResource()]
	}
	if r.Categories == nil {
		r.Categories = categories[gvr.GroupResource()]
	}
	return r, scopeKnown
}

// scopeOf reports whether a collection's resource is namespaced. Proof is a collection of one namespace, or a stored
// description with Namespaced, which a store sets for a key with a namespace. Otherwise the key of one of the newest
// objects decides; only snapshots list the newest objects. Otherwise a resource with objects, or with short names,
// categories or columns from the server, is cluster-scoped. In all other cases scopeOf guesses that the resource is
// namespaced, as most are.
func scopeOf(info entry.Info) (namespaced, known bool) {
	switch {
	case info.Identity.Namespace != "", info.Resource.Namespaced:
		return true, true
	case len(info.Newest) > 0:
		return strings.Contains(info.Newest[0].Key, "/"), true
	case info.Objects > 0, len(info.Resource.ShortNames) > 0, len(info.Resource.Categories) > 0,
		len(info.Resource.Columns) > 0:
		return false, true
	}
	return true, false
}

// WellKnownNames returns an empty collection for each built-in resource that has a short name, to resolve names without
// a store.
func WellKnownNames() []Collection {
	var all []Collection
	for gr := range shortNames {
		for _, gv := range scheme.Scheme.PrioritizedVersionsForGroup(gr.Group) {
			if gvr := gv.WithResource(gr.Resource); kindOf(gvr) != "" {
				all = append(all, NewCollection(entry.Info{Identity: entry.Identity{GroupVersionResource: gvr}}))
				break
			}
		}
	}
	Sort(all)
	return all
}

func kindOf(gvr schema.GroupVersionResource) string {
	for kind := range scheme.Scheme.KnownTypes(gvr.GroupVersion()) {
		if plural, _ := meta.UnsafeGuessKindToResource(gvr.GroupVersion().WithKind(kind)); plural == gvr {
			return kind
		}
	}
	return ""
}

// categories has the categories of built-in resources, such as "all". It serves stores without stored categories.
var categories = map[schema.GroupResource][]string{
	{Resource: "pods"}:                                           {all},
	{Resource: "replicationcontrollers"}:                         {all},
	{Resource: "services"}:                                       {all},
	{Group: "apps", Resource: "daemonsets"}:                      {all},
	{Group: "apps", Resource: "deployments"}:                     {all},
	{Group: "apps", Resource: "replicasets"}:                     {all},
	{Group: "apps", Resource: "statefulsets"}:                    {all},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: {all},
	{Group: "batch", Resource: "cronjobs"}:                       {all},
	{Group: "batch", Resource: "jobs"}:                           {all},

	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:     {extensions},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       {extensions},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: {extensions},
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}:   {extensions},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:                 {extensions},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                             {extensions},
}

const (
	all        = "all"
	extensions = "api-extensions"
)

// Members returns the built-in resources of a category, sorted by group and name.
func Members(category string) []schema.GroupResource {
	var members []schema.GroupResource
	for gr, of := range categories {
		if slices.Contains(of, category) {
			members = append(members, gr)
		}
	}
	slices.SortFunc(members, func(a, b schema.GroupResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return members
}

// WellKnown returns the names of the built-in resources that have short names, in alphabetical order.
func WellKnown() []string {
	var known []string
	for gr := range shortNames {
		if !slices.Contains(known, gr.Resource) {
			known = append(known, gr.Resource)
		}
	}
	slices.Sort(known)
	return known
}

// Meanings finds out which resource a name such as "ing" means, with the API server's discovery from the store. It
// caches the parsed discovery while the stored document is unchanged. The zero value is ready.
type Meanings struct {
	mu        sync.Mutex
	document  []byte           // document is the stored JSON of discovery; mu guards it
	discovery *facts.Discovery // discovery is immutable; mu guards the pointer
}

// Discovery returns the API server's discovery from the store, parsed; nil if none is stored or readable.
func (m *Meanings) Discovery(ctx context.Context, d facts.Documents) *facts.Discovery {
	m.mu.Lock()
	defer m.mu.Unlock()
	document, err := facts.DiscoveryDocument(ctx, d)
	if err != nil {
		return m.discovery
	}
	if m.discovery == nil || !bytes.Equal(document, m.document) {
		m.document, m.discovery = document, nil
		if read, err := facts.ReadDiscovery(ctx, d); err == nil {
			m.discovery = read
		}
	}
	return m.discovery
}

// SetMeanings sets two fields of each collection of a store or a snapshot: Elsewhere has the resource's names that mean
// another resource, and Retired says that the server serves the resource only in other versions. d is the discovery of
// the API server, or nil. A name means the resource that kubectl would choose on that server, in a stored version if
// possible. If that resource is not stored, the name means the resource that the user gave to larder sync under that
// name. If d is nil, the resource given to larder sync takes precedence.
func SetMeanings(all []Collection, d *facts.Discovery) {
	w := newWords(all, d)
	for i := range all {
		c := &all[i]
		r := c.Named()
		c.Retired, c.Elsewhere = d.Retired(c.GVR()), nil
		for _, name := range append(r.names(), r.ShortNames...) {
			if name != "" && !slices.Contains(c.Elsewhere, name) && w.meaning(name) != c.GVR() {
				c.Elsewhere = append(c.Elsewhere, name)
			}
		}
	}
}

// words maps the names of resources to the resources that they mean.
type words struct {
	// names maps plurals, singulars and kinds of the server's and of stored resources to the resources. short maps their
	// short names.
	names, short map[string]schema.GroupVersionResource
	// stored are the resources of the collections that the server still serves in the stored version, in kubectl's order
	// of preference.
	stored []Resource
	// guessed says that the server's order of API groups is unknown, so that kubectl's choice can only be guessed.
	guessed bool
}

func newWords(all []Collection, d *facts.Discovery) *words {
	w := &words{names: map[string]schema.GroupVersionResource{}, short: map[string]schema.GroupVersionResource{},
		guessed: d == nil}
	known := Offered(d)
	if d == nil {
		known = wellKnown() // every cluster has the built-in resources
	}
	for _, c := range all {
		if !d.Retired(c.GVR()) {
			w.stored = append(w.stored, c.Named())
		}
	}
	known = append(known, w.stored...) // resources of the server take precedence over stored resources
	order := d.Order()
	compare := func(a, b Resource) int { return order.Resources(a.GroupVersionResource, b.GroupVersionResource) }
	slices.SortStableFunc(known, compare)
	slices.SortStableFunc(w.stored, compare)
	add := func(to map[string]schema.GroupVersionResource, name string, r Resource) {
		if _, taken := to[name]; !taken {
			to[name] = r.GroupVersionResource
		}
	}
	for _, r := range known {
		for _, name := range r.names() {
			add(w.names, name, r)
		}
		for _, name := range r.ShortNames {
			add(w.short, name, r)
		}
	}
	return w
}

func (w *words) meaning(name string) schema.GroupVersionResource {
	meant, ok := w.names[name]
	if !ok {
		meant = w.short[name]
	}
	for _, fits := range []func(Resource) bool{
		func(r Resource) bool { return w.guessed && slices.Contains(r.RequestedAs, name) },
		func(r Resource) bool { return r.GroupVersionResource == meant },
		func(r Resource) bool { return r.GroupResource() == meant.GroupResource() },
		func(r Resource) bool { return slices.Contains(r.RequestedAs, name) },
	} {
		if i := slices.IndexFunc(w.stored, fits); i >= 0 {
			return w.stored[i].GroupVersionResource
		}
	}
	return meant
}

// Offered returns the resources in a discovery, in kubectl's order of preference. d may be nil.
func Offered(d *facts.Discovery) []Resource {
	if d == nil {
		return nil
	}
	var all []Resource
	for _, g := range d.Groups {
		for version, resources := range g.VersionedResources {
			for _, r := range resources {
				if strings.Contains(r.Name, "/") { // a subresource
					continue
				}
				all = append(all, Resource{
					GroupVersionResource: schema.GroupVersionResource{Group: g.Group.Name, Version: version, Resource: r.Name},
					ResourceInfo: entry.ResourceInfo{Kind: r.Kind, Singular: r.SingularName, ShortNames: r.ShortNames,
						Namespaced: r.Namespaced, Categories: r.Categories},
				})
			}
		}
	}
	order := d.Order()
	slices.SortStableFunc(all, func(a, b Resource) int {
		return order.Resources(a.GroupVersionResource, b.GroupVersionResource)
	})
	return all
}

func wellKnown() (all []Resource) {
	for _, c := range WellKnownNames() {
		all = append(all, c.Named())
	}
	return all
}
