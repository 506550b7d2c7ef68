package source

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/facts"
)

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
