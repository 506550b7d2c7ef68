package serve

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/internal/facts"
)

// catalogAge is how long the set of collections, as read from the store, is cached. discoveryAge is how long the
// discovery documents made from it are cached, unless the set of resources or of stored documents changes earlier.
const (
	catalogAge   = time.Second
	discoveryAge = time.Minute
)

// catalog caches the description of a Handler's source, a store or a snapshot: its collections, and the discovery
// documents made of them.
type catalog struct {
	source       Source
	confidential bool
	reviews      bool // clients may ask about their rights (SelfSubjectAccessReviews)
	now          func() time.Time

	gate  gate
	known *known    // the cached state of the source; guarded by gate; nil before the first request
	read  time.Time // time at which the cached state was read; guarded by gate
}

// known is the state of a source when it was last read: its collections, and the discovery documents made of them.
type known struct {
	kinds      map[schema.GroupVersionResource]*kind
	expected   map[schema.GroupVersionResource]entry.Identity // mirrored resources that the source does not have yet
	resources  map[schema.GroupVersionResource]discovery.Resource
	documents  []string // names of the stored documents of the API server (its discovery and schemas)
	discovery  *discovery.Handler
	forwarded  *discovery.Handler   // for clients whose requests are forwarded: has the resources of the API server
	release    *utilversion.Version // release of the API server; nil if unknown
	discovered time.Time            // time at which discovery was made
}

// kind is a mirrored resource in one version, with its collections.
type kind struct {
	schema.GroupVersionResource
	entry.ResourceInfo
	collections []*collection
}

// collection is a served collection with its description, the renderer that encodes its objects, and the caches of its
// encoded events and list sizes. A kind has several collections if its namespaces or selections are mirrored
// separately.
type collection struct {
	described
	*renderer
	labels  labels.Requirements
	fields  fields.Requirements
	frames  *frames
	lengths *lengths
}

// all returns the state of the source, which it reads again if the cached state is older than catalogAge. It fails if
// the source cannot be read, or if ctx ends first.
func (c *catalog) all(ctx context.Context) (*known, error) {
	if err := c.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer c.gate.leave()
	if now := c.now(); c.known == nil || now.Sub(c.read) > catalogAge {
		next := &known{discovered: now}
		var err error
		if next.kinds, next.expected, err = c.make(ctx); err != nil {
			return nil, err
		}
		next.resources = resourcesOf(next.kinds)
		if next.documents, err = c.source.Documents(ctx); err != nil {
			klog.FromContext(ctx).V(2).Info("What is known of the API server cannot be read", "err", err)
		}
		if old := c.known; old != nil && now.Sub(old.discovered) < discoveryAge &&
			reflect.DeepEqual(old.resources, next.resources) && slices.Equal(old.documents, next.documents) {
			next.discovery, next.forwarded, next.discovered = old.discovery, old.forwarded, old.discovered
			next.release = old.release
		} else {
			c.discover(ctx, next)
		}
		c.known, c.read = next, now
	}
	return c.known, nil
}

// resourcesOf returns the entries in discovery of the given kinds.
func resourcesOf(kinds map[schema.GroupVersionResource]*kind) map[schema.GroupVersionResource]discovery.Resource {
	all := map[schema.GroupVersionResource]discovery.Resource{}
	for gvr, k := range kinds {
		verbs := []string{"get", "list"}
		if slices.ContainsFunc(k.collections, func(c *collection) bool { return !c.unwatchable }) {
			verbs = append(verbs, "watch")
		}
		all[gvr] = discovery.Resource{GroupVersionResource: gvr, ResourceInfo: k.ResourceInfo, Verbs: verbs}
	}
	return all
}

// discover sets the fields of next that depend on the stored documents of the API server: discovery, forwarded and
// release.
func (c *catalog) discover(ctx context.Context, next *known) {
	resources := slices.Collect(maps.Values(next.resources))
	if c.reviews {
		resources = append(resources, reviews...)
	}
	server, err := facts.Read(ctx, c.source)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Part of what is known of the API server cannot be read", "err", err)
	}
	resources = slices.DeleteFunc(resources, func(r discovery.Resource) bool {
		return server.Discovery.Retired(r.GroupVersionResource) // absent from discovery, but readable by its path
	})
	o := discovery.Options{Server: server,
		OpenAPI: func(ctx context.Context, gv schema.GroupVersion) ([]byte, string, error) {
			return facts.OpenAPI(ctx, c.source, gv, func(bytes int) error { return holdSchema(ctx, bytes) })
		}}
	next.release = releaseOf(server.Version)
	next.discovery = discovery.New(resources, o)
	next.forwarded = discovery.New(append(resources, discovery.Of(server.Discovery)...), o)
}

// make reads the collections of the source and groups them by kind. A collection whose resource is described as before
// keeps its renderer and caches.
func (c *catalog) make(ctx context.Context) (
	kinds map[schema.GroupVersionResource]*kind, expected map[schema.GroupVersionResource]entry.Identity, err error,
) {
	all, err := c.source.collections(ctx)
	if err != nil {
		return nil, nil, err
	}
	kinds, expected = map[schema.GroupVersionResource]*kind{}, map[schema.GroupVersionResource]entry.Identity{}
	for _, d := range all {
		gvr := d.Identity.GroupVersionResource
		if d.expected {
			expected[gvr] = d.Identity
			continue
		}
		if d.confidential && !c.confidential || d.Resource.Kind == "" || d.Identity.ShardSelector != "" {
			continue
		}
		k := kinds[gvr]
		if k == nil {
			k = &kind{GroupVersionResource: gvr}
			kinds[gvr] = k
		}
		k.ResourceInfo = d.Resource.With(k.ResourceInfo)
		k.collections = append(k.collections, c.collection(d))
	}
	return kinds, expected, nil
}

// collection returns the collection that d describes. It keeps the renderer and caches of the collection with the same
// identity, unless the description of the resource has changed.
func (c *catalog) collection(d described) *collection {
	var old *collection
	if c.known != nil && c.known.kinds[d.Identity.GroupVersionResource] != nil {
		k := c.known.kinds[d.Identity.GroupVersionResource]
		at := slices.IndexFunc(k.collections, func(o *collection) bool { return o.Identity == d.Identity })
		if at >= 0 {
			old = k.collections[at]
		}
	}
	if old != nil && reflect.DeepEqual(old.Resource, d.Resource) {
		made := *old
		made.described = d
		return &made
	}
	made := &collection{described: d, renderer: newRenderer(d.Info), frames: newFrames(),
		lengths: &lengths{known: map[lengthKey]length{}}}
	if selector, err := labels.Parse(d.Identity.LabelSelector); err == nil {
		made.labels, _ = selector.Requirements()
	}
	if selector, err := fields.ParseSelector(d.Identity.FieldSelector); err == nil {
		made.fields = selector.Requirements()
	}
	return made
}

// hasStatus reports whether a GET of the status subresource returns the object, as in kube-apiserver. It returns false
// for custom resources, since the source does not record whether they have that subresource.
func (k *kind) hasStatus() bool {
	obj, err := scheme.Scheme.New(k.collections[0].renderer.kind)
	if err != nil {
		return extending(k.Group)
	}
	_, has := reflect.TypeOf(obj).Elem().FieldByName("Status")
	return has
}

// find returns the collection that answers a request for objects in the form f: whole, as metadata or as a Table. Of
// several collections with all requested objects it returns the preferred one (entry.Prefer). If none has all of them
// and exactly one collection has some, find returns that collection with exact set to false.
func (k *kind) find(p path, o *listOptions, f form) (c *collection, exact bool) {
	var part, whole []*collection
	for _, c := range k.collections {
		switch {
		case c.Identity.Representation == entry.Metadata && f != metadata:
		case c.Identity.Namespace != "" && p.namespace != "" && c.Identity.Namespace != p.namespace:
		case c.covers(p, o):
			whole = append(whole, c)
		default:
			part = append(part, c)
		}
	}
	switch {
	case len(whole) > 0:
		return slices.MinFunc(whole, func(a, b *collection) int { return entry.Prefer(a.Info, b.Info) }), true
	case len(part) == 1:
		return part[0], false
	}
	return nil, false
}

// covers reports whether the collection contains all objects that a request selects, by its path and selectors.
func (c *collection) covers(p path, o *listOptions) bool {
	if c.Identity.Namespace != "" && c.Identity.Namespace != p.namespace || c.lacks != "" {
		return false
	}
	asked, _ := o.labels.Requirements()
	for _, r := range c.labels {
		if !slices.ContainsFunc(asked, func(a labels.Requirement) bool { return a.String() == r.String() }) {
			return false
		}
	}
	for _, r := range c.fields {
		if !slices.Contains(o.fields.Requirements(), r) {
			return false
		}
	}
	return true
}

// scope describes in words which objects of the kind are mirrored, for error messages.
func (k *kind) scope() string {
	var all []string
	for _, c := range k.collections {
		all = append(all, c.scope())
	}
	return strings.Join(all, ", ")
}

// scope describes in words which objects of its kind the collection contains, for error messages.
func (c *collection) scope() string {
	if c.Identity.Namespace == "" && c.Identity.LabelSelector == "" && c.Identity.FieldSelector == "" && c.lacks == "" {
		return "all"
	}
	text := "those"
	if c.Identity.Namespace != "" {
		text += " in namespace " + c.Identity.Namespace
	}
	if s := c.Identity.LabelSelector; s != "" {
		text += " with labels " + s
	}
	if s := c.Identity.FieldSelector; s != "" {
		text += " with " + s
	}
	if c.lacks != "" {
		text += " that are left (" + c.lacks + ")"
	}
	return text
}
