package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"

	"github.com/larder-dev/larder/codec"
)

const (
	discoveryDocument = "discovery"
	// discoveryVersion is the version of the JSON of a stored Discovery. Increment it when the meaning of a field changes.
	// Discoveries of other versions are not read.
	discoveryVersion = 2
)

// Discovery is the input of a RESTMapper: a server's groups, in the server's order, and all its resources, each
// followed by its subresources. It is stored as JSON. Discoveries stored by earlier builds lack short names,
// categories, verbs and subresources.
type Discovery struct {
	Version int `json:"version"`
	// Fetched is when the server answered the discovery request; zero if it has not answered.
	Fetched time.Time                       `json:"fetched"`
	Groups  []*restmapper.APIGroupResources `json:"groups"`
	// ETags are the ETags of the server's aggregated documents, by path. A Discovery without all of the server's groups
	// has no ETags.
	ETags       map[string]string `json:"etags,omitempty"`
	Unavailable []string          `json:"unavailable,omitempty"`
}

// DiscoveryDocument returns the bytes of the stored discovery, which ReadDiscovery decodes; nil if none is stored.
func DiscoveryDocument(ctx context.Context, d Documents) ([]byte, error) {
	return d.Document(ctx, discoveryDocument)
}

func ReadDiscovery(ctx context.Context, d Documents) (*Discovery, error) {
	data, err := DiscoveryDocument(ctx, d)
	if err != nil || data == nil {
		return nil, err
	}
	read, err := decodeDiscovery(data)
	if err != nil {
		return nil, err
	}
	return &read, nil
}

// maxDiscovery is the maximum memory in bytes that decoding a stored discovery may take (codec.JSONWeight). It suffices
// for 30,000 resources.
const maxDiscovery = 32 << 20

func decodeDiscovery(data []byte) (d Discovery, err error) {
	if w := codec.JSONWeight(data); w > maxDiscovery {
		return d, fmt.Errorf("document %q takes about %d MiB to decode, and may take %d MiB", discoveryDocument, w>>20,
			maxDiscovery>>20)
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("document %q cannot be read: %w", discoveryDocument, err)
	}
	if d.Version != discoveryVersion {
		return d, fmt.Errorf("document %q is of version %d, and this program reads %d", discoveryDocument, d.Version,
			discoveryVersion)
	}
	return d, nil
}

func (d Discovery) encode() ([]byte, error) { return json.Marshal(d) }

func (d Discovery) Put(ctx context.Context, st Store) error {
	data, err := d.encode()
	if err != nil {
		return err
	}
	return st.PutDocument(ctx, discoveryDocument, data)
}

// Equal reports whether both discoveries have the same groups and resources.
func (d Discovery) Equal(other Discovery) bool {
	return equality.Semantic.DeepEqual(d.Groups, other.Groups)
}

func (d *Discovery) Has(gv schema.GroupVersion) bool {
	if d == nil {
		return false
	}
	return slices.ContainsFunc(d.Groups, func(g *restmapper.APIGroupResources) bool {
		return g.Group.Name == gv.Group && g.VersionedResources[gv.Version] != nil
	})
}

func (d *Discovery) Resource(gvr schema.GroupVersionResource) (metav1.APIResource, bool) {
	if d == nil {
		return metav1.APIResource{}, false
	}
	for _, g := range d.Groups {
		if g.Group.Name != gvr.Group {
			continue
		}
		for _, r := range g.VersionedResources[gvr.Version] {
			if r.Name == gvr.Resource {
				return r, true
			}
		}
	}
	return metav1.APIResource{}, false
}

// Retired reports whether the server serves a resource only in other versions: its group has the resource, but not in
// the version of gvr.
func (d *Discovery) Retired(gvr schema.GroupVersionResource) bool {
	if _, served := d.Resource(gvr); d == nil || served {
		return false
	}
	for _, g := range d.Groups {
		for version := range g.VersionedResources {
			other := schema.GroupVersionResource{Group: gvr.Group, Version: version, Resource: gvr.Resource}
			if _, has := d.Resource(other); has && g.Group.Name == gvr.Group {
				return true
			}
		}
	}
	return false
}

// DiscoveryOf converts the server's discovery response to a Discovery.
func DiscoveryOf(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) Discovery {
	resources := map[string][]metav1.APIResource{}
	for _, list := range lists {
		resources[list.GroupVersion] = mapped(list.APIResources)
	}
	d := Discovery{Version: discoveryVersion, Fetched: now()}
	for _, g := range groups {
		of := &restmapper.APIGroupResources{Group: *g, VersionedResources: map[string][]metav1.APIResource{}}
		for _, v := range g.Versions {
			if has, ok := resources[v.GroupVersion]; ok {
				of.VersionedResources[v.Version] = has
			}
		}
		d.Groups = append(d.Groups, of)
	}
	return d
}

func now() time.Time { return time.Now().UTC().Round(0) }

// Keep copies from an earlier discovery the resources of the group-versions in failed, which the server cannot describe
// now. A preferred version stays preferred.
func (d Discovery) Keep(before Discovery, failed map[schema.GroupVersion]error) {
	for _, old := range before.Groups {
		i := slices.IndexFunc(d.Groups, func(g *restmapper.APIGroupResources) bool {
			return g.Group.Name == old.Group.Name
		})
		for _, v := range old.Group.Versions {
			_, ok := failed[schema.GroupVersion{Group: old.Group.Name, Version: v.Version}]
			if !ok || i < 0 {
				continue
			}
			g := d.Groups[i]
			g.VersionedResources[v.Version] = old.VersionedResources[v.Version]
			if !slices.Contains(g.Group.Versions, v) {
				g.Group.Versions = append(g.Group.Versions, v)
			}
			if v == old.Group.PreferredVersion {
				g.Group.PreferredVersion = v
			}
		}
	}
}

// of returns the part of the discovery with the groups of the given group-versions, in all versions.
func (d Discovery) of(gvs []schema.GroupVersion) Discovery {
	d.ETags = nil
	d.Groups = slices.DeleteFunc(slices.Clone(d.Groups), func(g *restmapper.APIGroupResources) bool {
		return !slices.ContainsFunc(gvs, func(gv schema.GroupVersion) bool { return gv.Group == g.Group.Name })
	})
	return d
}

func mapped(all []metav1.APIResource) (resources []metav1.APIResource) {
	for _, r := range all {
		kept := metav1.APIResource{
			Name: r.Name, SingularName: r.SingularName, Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs,
			ShortNames: r.ShortNames, Categories: r.Categories,
		}
		if strings.Contains(r.Name, "/") { // a subresource often has the kind of another resource
			kept.SingularName, kept.Group, kept.Version = "", r.Group, r.Version
		}
		resources = append(resources, kept)
	}
	slices.SortStableFunc(resources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return resources
}
