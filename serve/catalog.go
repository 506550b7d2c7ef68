package serve

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/internal/facts"
)

// catalogAge is how long the store's set of collections is cached. discoveryAge is how long the discovery documents
// made from that set are cached, unless the resources or the stored documents of the API server change earlier.
const (
	catalogAge   = time.Second
	discoveryAge = time.Minute
)

// catalog caches a Source's collections and the discovery documents that describe them.
type catalog struct {
	source       Source
	confidential bool
	reviews      bool
	now          func() time.Time

	gate gate
	// known is the cached state of the source; nil before the first request. gate guards known and read.
	known *known
	read  time.Time
}

type known struct {
	kinds map[schema.GroupVersionResource]*kind
	// expected has the mirrored resources that the store does not have yet.
	expected  map[schema.GroupVersionResource]entry.Identity
	resources map[schema.GroupVersionResource]discovery.Resource
	documents []string
	discovery *discovery.Handler
	// forwarded has the resources of the API server too. It is for clients whose requests are forwarded.
	forwarded  *discovery.Handler
	release    *utilversion.Version
	discovered time.Time
}

// kind is a mirrored resource in one version, with its collections.
type kind struct {
	schema.GroupVersionResource
	entry.ResourceInfo
	collections []*collection
}

// collection is a served collection with its renderer and caches. A kind has several collections if its namespaces or
// selections are mirrored separately.
type collection struct {
	described
	*renderer
	labels  labels.Requirements
	fields  fields.Requirements
	frames  *frames
	lengths *lengths
}

// all returns the cached state of the source, or reads it if that state is older than catalogAge.
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
		// A retired version is absent from discovery, but readable by its path.
		return server.Discovery.Retired(r.GroupVersionResource)
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
// for custom resources, since the store does not know whether they have that subresource.
func (k *kind) hasStatus() bool {
	obj, err := scheme.Scheme.New(k.collections[0].renderer.kind)
	if err != nil {
		return extending(k.Group)
	}
	_, has := reflect.TypeOf(obj).Elem().FieldByName("Status")
	return has
}

// find returns the collection that answers a request for objects in the form f: whole, as metadata or as a Table.
// entry.Prefer chooses among several collections with all requested objects. Without one, find returns the only
// collection with some of the objects, with exact set to false.
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

func (k *kind) scope() string {
	var all []string
	for _, c := range k.collections {
		all = append(all, c.scope())
	}
	return strings.Join(all, ", ")
}

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

type path struct {
	schema.GroupVersionResource
	subresource, namespace, name string
}

// parsePath parses a URL path below /api or /apis. ok is false if the path does not name a resource.
func parsePath(text string) (p path, ok bool) {
	parts := strings.Split(strings.Trim(text, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		p.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		p.Group, p.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return p, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 && !(len(parts) == 3 && isNamespaceSubresource(parts[2])) {
		p.namespace, parts = parts[1], parts[2:]
	}
	switch len(parts) {
	case 3:
		p.subresource = parts[2]
		fallthrough
	case 2:
		p.name = parts[1]
		fallthrough
	case 1:
		p.Resource = parts[0]
	default: // proxy requests have a longer subresource
		p.Resource, p.name, p.subresource = parts[0], parts[1], strings.Join(parts[2:], "/")
	}
	if slices.Contains(strings.Split(text, "/"), "..") || slices.Contains(parts[:min(len(parts), 2)], "") {
		return p, false
	}
	return p, p.namespace != "" || !strings.Contains(text, "/namespaces//")
}

// isNamespaceSubresource reports whether namespaces/NAME/name is a subresource, not a resource in the namespace.
func isNamespaceSubresource(name string) bool { return name == "status" || name == "finalize" }

// prefix returns the key of the object that the path names, or the prefix of the keys of a namespace's objects.
func (p path) prefix() string {
	if p.namespace == "" {
		return p.name
	}
	return p.namespace + "/" + p.name
}

// deprecation is the warning for a deprecated version of a kind, and the Kubernetes release since which kube-apiserver
// sends that warning. The zero value means that the version is not deprecated.
type deprecation struct {
	text string
	// since is nil if all releases send the warning.
	since *utilversion.Version
}

// deprecationOf returns the deprecation of a built-in kind, in the words of k8s.io/apiserver/pkg/endpoints/deprecation.
// The releases come from the Go types of client-go.
func deprecationOf(gvk schema.GroupVersionKind) (d deprecation) {
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		return d
	}
	deprecated, ok := obj.(interface{ APILifecycleDeprecated() (major, minor int) })
	if !ok {
		return d
	}
	major, minor := deprecated.APILifecycleDeprecated()
	if major == 0 && minor == 0 {
		return d
	}
	d.since = utilversion.MustParseGeneric(fmt.Sprintf("%d.%d", major, minor))
	d.text = fmt.Sprintf("%s %s is deprecated in v%d.%d+", gvk.GroupVersion(), gvk.Kind, major, minor)
	return deprecation{since: d.since, text: d.text + removal(obj) + replacement(obj)}
}

func removal(obj runtime.Object) string {
	if o, ok := obj.(interface{ APILifecycleRemoved() (major, minor int) }); ok {
		if major, minor := o.APILifecycleRemoved(); major != 0 || minor != 0 {
			return fmt.Sprintf(", unavailable in v%d.%d+", major, minor)
		}
	}
	return ""
}

func replacement(obj runtime.Object) string {
	if o, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		if r := o.APILifecycleReplacement(); !r.Empty() {
			return fmt.Sprintf("; use %s %s", r.GroupVersion(), r.Kind)
		}
	}
	return ""
}

// deprecation returns the deprecation of the requested version of a kind. The deprecation of a custom resource comes
// from its CustomResourceDefinition.
func (k *kind) deprecation() deprecation {
	if c := k.collections[0]; c.builtIn {
		return c.deprecated
	}
	return deprecation{text: k.Deprecated}
}

// maxDeprecation bounds the text of a warning, in bytes. The text may come from an untrusted snapshot.
const maxDeprecation = 1 << 10

// warning returns the Warning header that an API server of the given release sends for the deprecation. It returns ""
// if that server sends none, or if the release is unknown but the warning depends on it.
func (d deprecation) warning(release *utilversion.Version) string {
	if d.text == "" || len(d.text) > maxDeprecation || d.since != nil && (release == nil || release.LessThan(d.since)) {
		return ""
	}
	header, err := utilnet.NewWarningHeader(299, "", d.text)
	if err != nil { // the text has control characters
		return ""
	}
	return header
}

func releaseOf(v *version.Info) *utilversion.Version {
	if v == nil {
		return nil
	}
	minor := v.Minor // vendors append a sign to the number, as in 27+
	if end := strings.IndexFunc(minor, func(c rune) bool { return c < '0' || c > '9' }); end >= 0 {
		minor = minor[:end]
	}
	release, err := utilversion.ParseGeneric(v.Major + "." + minor)
	if err != nil {
		return nil
	}
	return release
}
