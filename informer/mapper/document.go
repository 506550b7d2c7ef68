package mapper

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

const (
	// documentName is the name of the document in the store.
	documentName = "discovery"
	// documentVersion changes with the meaning of the document. Documents of another version are not read.
	documentVersion = 1
)

// document is stored as JSON: the part of discovery that RESTMappings are made of.
type document struct {
	Version int             `json:"version"`
	Fetched time.Time       `json:"fetched"`
	Groups  json.RawMessage `json:"groups"` // of []group
}

// group is an API group, with its versions in the server's order.
type group struct {
	Name      string    `json:"name"` // empty is the core group
	Preferred string    `json:"preferred,omitempty"`
	Versions  []version `json:"versions"`
}

// version is a group-version, with its resources in the order of their names.
type version struct {
	Name      string     `json:"name"`
	Resources []resource `json:"resources"`
}

type resource struct {
	Name       string `json:"name"`
	Singular   string `json:"singular,omitempty"`
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced,omitempty"`
}

func encodeDocument(groups string, fetched time.Time) ([]byte, error) {
	return json.Marshal(document{Version: documentVersion, Fetched: fetched.UTC().Round(0),
		Groups: json.RawMessage(groups)})
}

func decodeDocument(data []byte) (groups []group, fetched time.Time, err error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, time.Time{}, err
	}
	if d.Version != documentVersion {
		return nil, time.Time{}, fmt.Errorf("it is of version %d, and this program reads %d", d.Version, documentVersion)
	}
	err = json.Unmarshal(d.Groups, &groups)
	return groups, d.Fetched, err
}

// groupsOf returns the groups of the server's answer, without the group-versions that failed.
func groupsOf(apiGroups []*metav1.APIGroup, lists []*metav1.APIResourceList) (groups []group) {
	byVersion := map[string][]resource{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = resourcesOf(list)
	}
	for _, g := range apiGroups {
		out := group{Name: g.Name, Preferred: g.PreferredVersion.Version}
		for _, v := range g.Versions {
			if resources, ok := byVersion[v.GroupVersion]; ok {
				out.Versions = append(out.Versions, version{v.Version, resources})
			}
		}
		if len(out.Versions) > 0 {
			groups = append(groups, out)
		}
	}
	return groups
}

func resourcesOf(list *metav1.APIResourceList) (resources []resource) {
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") {
			continue // subresources have no mapping
		}
		resources = append(resources, resource{r.Name, r.SingularName, r.Kind, r.Namespaced})
	}
	slices.SortStableFunc(resources, func(a, b resource) int { return strings.Compare(a.Name, b.Name) })
	return resources
}

// keep returns groups with the failed group-versions as they were in before; a preferred version stays preferred.
func keep(groups, before []group, failed map[schema.GroupVersion]error) []group {
	for _, old := range before {
		for _, v := range old.Versions {
			if _, ok := failed[schema.GroupVersion{Group: old.Name, Version: v.Name}]; !ok {
				continue
			}
			i := slices.IndexFunc(groups, func(g group) bool { return g.Name == old.Name })
			if i < 0 {
				i = len(groups)
				groups = append(groups, group{Name: old.Name})
			}
			if g := &groups[i]; v.Name == old.Preferred {
				g.Preferred, g.Versions = v.Name, append([]version{v}, g.Versions...)
			} else {
				g.Versions = append(g.Versions, v)
			}
		}
	}
	return groups
}

// discovered returns groups as client-go's mapper takes them.
func discovered(groups []group) (out []*restmapper.APIGroupResources) {
	for _, g := range groups {
		of := &restmapper.APIGroupResources{
			Group:              metav1.APIGroup{Name: g.Name, PreferredVersion: versionFor(g.Name, g.Preferred)},
			VersionedResources: map[string][]metav1.APIResource{},
		}
		for _, v := range g.Versions {
			of.Group.Versions = append(of.Group.Versions, versionFor(g.Name, v.Name))
			resources := make([]metav1.APIResource, 0, len(v.Resources))
			for _, r := range v.Resources {
				resources = append(resources, metav1.APIResource{Name: r.Name, SingularName: r.Singular, Kind: r.Kind,
					Namespaced: r.Namespaced})
			}
			of.VersionedResources[v.Name] = resources
		}
		out = append(out, of)
	}
	return out
}

func versionFor(group, version string) metav1.GroupVersionForDiscovery {
	return metav1.GroupVersionForDiscovery{GroupVersion: schema.GroupVersion{Group: group, Version: version}.String(),
		Version: version}
}
