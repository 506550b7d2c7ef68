package discovery

import (
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/kubernetes/scheme"

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

// Of returns the resources in a server's discovery whose verbs are known.
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

func (h *Handler) versions(host string) *metav1.APIVersions {
	all := &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, // kube-apiserver also sends no apiVersion in APIVersions
		Versions: []string{},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
			{ClientCIDR: "0.0.0.0/0", ServerAddress: host},
		},
	}
	for _, g := range h.groups {
		if g.name == "" {
			for _, v := range g.versions {
				all.Versions = append(all.Versions, v.Version)
			}
		}
	}
	return all
}

func (h *Handler) list() *metav1.APIGroupList {
	all := &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{},
	}
	for _, g := range h.groups {
		if g.name != "" {
			all.Groups = append(all.Groups, g.document())
		}
	}
	return all
}

func (g group) document() metav1.APIGroup {
	d := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		d.Versions = append(d.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.Version})
	}
	d.PreferredVersion = d.Versions[0]
	return d
}

func (g group) alone() *metav1.APIGroup {
	d := g.document()
	d.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
	return &d
}

func (v groupVersion) document() *metav1.APIResourceList {
	d := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: v.String()}
	if v.Group == "" {
		d.APIVersion = "" // kube-apiserver also sends no apiVersion for the core group's APIResourceList
	}
	for _, r := range v.resources {
		d.APIResources = append(d.APIResources, metav1.APIResource{
			Name: r.Resource, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind, Verbs: r.Verbs,
			ShortNames: r.ShortNames, Categories: r.Categories,
		})
		d.APIResources = append(d.APIResources, r.Subresources...)
	}
	return d
}

// aggregated returns the aggregated discovery document of /api (the core group) if core is true, and of /apis (all
// other groups) otherwise.
func (h *Handler) aggregated(core bool) *apidiscoveryv2.APIGroupDiscoveryList {
	all := &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: aggregatedKind.Kind, APIVersion: aggregatedKind.GroupVersion().String()},
		Items:    []apidiscoveryv2.APIGroupDiscovery{},
	}
	for _, g := range h.groups {
		if (g.name == "") != core {
			continue
		}
		d := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			d.Versions = append(d.Versions, v.aggregated())
		}
		all.Items = append(all.Items, d)
	}
	return all
}

func (v groupVersion) aggregated() apidiscoveryv2.APIVersionDiscovery {
	d := apidiscoveryv2.APIVersionDiscovery{Version: v.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	for _, r := range v.resources {
		scope := apidiscoveryv2.ScopeCluster
		if r.Namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		d.Resources = append(d.Resources, apidiscoveryv2.APIResourceDiscovery{
			Resource: r.Resource, SingularResource: r.Singular, Scope: scope, Verbs: r.Verbs,
			ResponseKind: responseKind(r), ShortNames: r.ShortNames, Categories: r.Categories,
			Subresources: subresources(r),
		})
	}
	return d
}

func subresources(r Resource) (all []apidiscoveryv2.APISubresourceDiscovery) {
	for _, s := range r.Subresources {
		kind := &metav1.GroupVersionKind{Group: s.Group, Version: s.Version, Kind: s.Kind}
		all = append(all, apidiscoveryv2.APISubresourceDiscovery{Subresource: strings.TrimPrefix(s.Name, r.Resource+"/"),
			ResponseKind: kind, Verbs: s.Verbs})
	}
	return all
}

func responseKind(r Resource) *metav1.GroupVersionKind {
	if scheme.Scheme.IsGroupRegistered(r.Group) || slices.Contains(schemeLacks, r.Group) {
		return &metav1.GroupVersionKind{Kind: r.Kind}
	}
	return &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// schemeLacks has the API groups of kube-apiserver whose types are not in client-go's scheme.
var schemeLacks = []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}

// selectable has the fields by which kube-apiserver can select objects of its own kinds: the arguments of
// AddFieldLabelConversionFunc in its pkg/apis. All other kinds can be selected by metadata.name and metadata.namespace
// only.
var selectable = map[schema.GroupResource][]string{
	{Resource: "pods"}: {"metadata.name", "metadata.namespace", "spec.nodeName", "spec.restartPolicy",
		"spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP",
		"status.podIPs", "status.nominatedNodeName"},
	{Resource: "nodes"}:                  {"metadata.name", "spec.unschedulable"},
	{Resource: "namespaces"}:             {"metadata.name", "status.phase"},
	{Resource: "secrets"}:                {"metadata.name", "metadata.namespace", "type"},
	{Resource: "services"}:               {"metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"},
	{Resource: "replicationcontrollers"}: {"metadata.name", "metadata.namespace", "status.replicas"},
	{Resource: "events"}: {"metadata.name", "metadata.namespace", "involvedObject.kind", "involvedObject.namespace",
		"involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
		"involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"},
	{Group: "events.k8s.io", Resource: "events"}: {"metadata.name", "metadata.namespace", "regarding.kind",
		"regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion", "regarding.resourceVersion",
		"regarding.fieldPath", "reason", "reportingController", "type"},
	{Group: "batch", Resource: "jobs"}: {"metadata.name", "metadata.namespace",
		"status.successful"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: {"metadata.name", "spec.signerName"},
	{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}:        {"metadata.name", "spec.signerName"},
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}: {"metadata.name", "spec.signerName",
		"spec.podName", "spec.nodeName"},
	{Group: "resource.k8s.io", Resource: "resourceslices"}: {"metadata.name", "spec.nodeName", "spec.driver"},
}

// SelectableFields returns the fields by which kube-apiserver can select objects of a built-in kind. special is true if
// there are others than metadata.name and metadata.namespace.
func SelectableFields(r schema.GroupResource) (labels []string, special bool) {
	if labels, special = selectable[r]; special {
		return labels, true
	}
	return []string{"metadata.name", "metadata.namespace"}, false
}

// IsSelectableField reports whether kube-apiserver can select objects of a built-in kind by the field.
func IsSelectableField(r schema.GroupResource, label string) bool {
	labels, _ := SelectableFields(r)
	return slices.Contains(labels, label)
}

// StoredFields translates a field selector of the Kubernetes API into a selector of stored objects, in which fields
// with zero values are missing. Requirements on the source of events are returned separately, because an event's source
// may be in either of two fields.
func StoredFields(r schema.GroupResource, selector fields.Selector) (_ fields.Selector, sources fields.Requirements) {
	var all []fields.Selector
	for _, one := range selector.Requirements() {
		not := one.Operator == selection.NotEquals
		if !IsSelectableField(r, one.Field) {
			all = append(all, term(one.Field, one.Value, not))
			continue
		}
		switch one.Field {
		case "source":
			sources = append(sources, one)
		case "status.successful":
			if one.Field = "status.succeeded"; one.Value == "0" {
				one.Value = ""
			}
			all = append(all, term(one.Field, one.Value, not))
		case "spec.hostNetwork", "spec.unschedulable":
			if one.Value == "false" {
				// A stored object has "false" only if a client has set it explicitly, so the selector for false is: not "true".
				one.Value, not = "true", !not
			}
			all = append(all, term(one.Field, one.Value, not))
		default:
			all = append(all, term(one.Field, one.Value, not))
		}
	}
	return fields.AndSelectors(all...), sources
}

// StoredSelector is StoredFields for a field selector as text. An invalid selector is returned unchanged. The source of
// events is selected by source.component only.
func StoredSelector(r schema.GroupResource, selector string) string {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return selector
	}
	stored, sources := StoredFields(r, parsed)
	for _, one := range sources {
		stored = fields.AndSelectors(stored, term("source.component", one.Value, one.Operator == selection.NotEquals))
	}
	return stored.String()
}

func term(field, value string, not bool) fields.Selector {
	if not {
		return fields.OneTermNotEqualSelector(field, value)
	}
	return fields.OneTermEqualSelector(field, value)
}
