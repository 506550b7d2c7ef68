package source

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/entry"
)

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
