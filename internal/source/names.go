package source

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/entry"
)

// shortNames are what kubectl calls Kubernetes' own resources, for stores that do not tell: a Go program need not know
// them.
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

// describe returns what the store tells about a resource, and what can be said where it does not: a program may have
// stored objects without knowing how people call them. surely is false if the scope is a guess.
func describe(info entry.Info) (r entry.ResourceInfo, surely bool) {
	r = info.Resource
	gvr := info.Identity.GroupVersionResource
	r.Namespaced, surely = scopeOf(info)
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
	return r, surely
}

// scopeOf reports whether the objects have namespaces. A key shows it, of which stores and snapshots take note, and so
// does the collection of one namespace; what a server has told comes with short names, categories or columns as a rule.
// Most resources are namespaced.
func scopeOf(info entry.Info) (namespaced, surely bool) {
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

// WellKnownNames returns what people call the resources of WellKnown, each as a collection that nobody has.
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

// kindOf is the kind of one of Kubernetes' own resources, or empty.
func kindOf(gvr schema.GroupVersionResource) string {
	for kind := range scheme.Scheme.KnownTypes(gvr.GroupVersion()) {
		if plural, _ := meta.UnsafeGuessKindToResource(gvr.GroupVersion().WithKind(kind)); plural == gvr {
			return kind
		}
	}
	return ""
}
