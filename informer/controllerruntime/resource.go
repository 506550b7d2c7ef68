package controllerruntime

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

// resourceInfo is what the command line shows and is asked for. The mapper knows it without asking the server: the
// ListerWatcher was made with it. One that does not know the kind leaves it to the example object.
func resourceInfo(mapper meta.RESTMapper, gvr schema.GroupVersionResource) (entry.ResourceInfo, error) {
	kinds := kindsOf(mapper, gvr)
	switch len(kinds) {
	case 0:
		return entry.ResourceInfo{}, nil
	case 1:
	default:
		return entry.ResourceInfo{}, fmt.Errorf("%w: the RESTMapper has %d kinds for %s, %v; a resource has one",
			ErrIdentity, len(kinds), gvr, kinds)
	}
	kind := kinds[0]
	info := entry.ResourceInfo{Kind: kind.Kind, Singular: singularOf(mapper, gvr, kind)}
	if mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err == nil {
		info.Namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	}
	return info, nil
}

// kindsOf returns the kinds of exactly that resource. Mappers take an empty group for any group, so for a resource of
// the core group they return those of other groups' resources of the same name and version too.
func kindsOf(mapper meta.RESTMapper, gvr schema.GroupVersionResource) (kinds []schema.GroupVersionKind) {
	found, err := mapper.KindsFor(gvr)
	if err != nil {
		return nil
	}
	for _, kind := range found {
		if kind.GroupVersion() == gvr.GroupVersion() && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// singularOf returns the resource's name for one object. Mappers are asked for it by the plural alone and may answer
// for another group, so the answer counts if it names the same kind in this group; else it is the kind's name, as by
// custom.
func singularOf(mapper meta.RESTMapper, gvr schema.GroupVersionResource, kind schema.GroupVersionKind) string {
	singular, err := mapper.ResourceSingularizer(gvr.Resource)
	if err == nil && slices.Contains(kindsOf(mapper, gvr.GroupVersion().WithResource(singular)), kind) {
		return singular
	}
	return strings.ToLower(kind.Kind)
}
