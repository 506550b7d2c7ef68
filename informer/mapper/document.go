package mapper

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

const (
	// documentName is the name of the document in the store.
	documentName = "discovery"
	// documentVersion changes with the meaning of the document. Documents of another version are not read.
	documentVersion = 2
)

// document is the part of discovery that RESTMappings are made of. It is stored as JSON.
type document struct {
	Version int `json:"version"`
	// Fetched is when the server answered; zero if it has not.
	Fetched time.Time                       `json:"fetched"`
	Groups  []*restmapper.APIGroupResources `json:"groups"`
}

func decodeDocument(data []byte) (d document, err error) {
	if err := json.Unmarshal(data, &d); err != nil {
		return d, err
	}
	if d.Version != documentVersion {
		return d, fmt.Errorf("it is of version %d, and this program reads %d", d.Version, documentVersion)
	}
	return d, nil
}

// equal reports whether both have the same resources.
func (d document) equal(other document) bool {
	return equality.Semantic.DeepEqual(d.Groups, other.Groups)
}

// documentOf returns the document of the server's answer.
func documentOf(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) document {
	resources := map[string][]metav1.APIResource{}
	for _, list := range lists {
		resources[list.GroupVersion] = mapped(list.APIResources)
	}
	d := document{Version: documentVersion, Fetched: time.Now().UTC().Round(0)}
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

// keep adds what the group-versions that failed had before. A preferred version stays preferred.
func (d document) keep(before document, failed map[schema.GroupVersion]error) {
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

// mapped returns what mappings are made of, in the order of the names. Subresources have no mapping.
func mapped(all []metav1.APIResource) (resources []metav1.APIResource) {
	for _, r := range all {
		if !strings.Contains(r.Name, "/") {
			resources = append(resources, metav1.APIResource{
				Name: r.Name, SingularName: r.SingularName, Kind: r.Kind, Namespaced: r.Namespaced,
			})
		}
	}
	slices.SortStableFunc(resources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return resources
}
