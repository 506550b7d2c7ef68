package discovery

import (
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

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
