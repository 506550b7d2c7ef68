package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/entry"
)

// DefinitionWait limits the time of a request for a CustomResourceDefinition, which may have hundreds of KB with its
// schema.
const DefinitionWait = 2 * time.Minute

type definition struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Scope string `json:"scope"`
		Names struct {
			Kind       string   `json:"kind"`
			ListKind   string   `json:"listKind"`
			Singular   string   `json:"singular"`
			ShortNames []string `json:"shortNames"`
			Categories []string `json:"categories"`
		} `json:"names"`
		Versions []struct {
			Name       string         `json:"name"`
			Columns    []entry.Column `json:"additionalPrinterColumns"`
			Selectable []struct {
				JSONPath string `json:"jsonPath"`
			} `json:"selectableFields"`
			Served     bool    `json:"served"`
			Deprecated bool    `json:"deprecated"`
			Warning    *string `json:"deprecationWarning"`
		} `json:"versions"`
	} `json:"spec"`
}

// deprecated returns the deprecation warning of a resource's version; "" if the version is not deprecated. Without a
// text in the definition the warning is that of k8s.io/apiextensions-apiserver/pkg/apiserver.
func (d *definition) deprecated(gvr schema.GroupVersionResource) string {
	text, newest := "", ""
	for _, v := range d.Spec.Versions {
		switch {
		case v.Name == gvr.Version && v.Deprecated && v.Warning != nil:
			return *v.Warning
		case v.Name == gvr.Version && v.Deprecated:
			text = fmt.Sprintf("%s %s is deprecated", gvr.GroupVersion(), d.Spec.Names.Kind)
		case v.Served && !v.Deprecated && version.CompareKubeAwareVersionStrings(v.Name, gvr.Version) > 0 &&
			(newest == "" || version.CompareKubeAwareVersionStrings(v.Name, newest) > 0):
			newest = v.Name
		}
	}
	if text != "" && newest != "" {
		text += fmt.Sprintf("; use %s/%s %s", gvr.Group, newest, d.Spec.Names.Kind)
	}
	return text
}

// IsCustom reports whether a resource may be defined by a CustomResourceDefinition: its API group contains a dot and is
// not a group of Kubernetes itself.
func IsCustom(gvr schema.GroupVersionResource) bool {
	return strings.Contains(gvr.Group, ".") && !scheme.Scheme.IsGroupRegistered(gvr.Group)
}

// DefinitionState returns a string that identifies the current state of a resource's CustomResourceDefinition. It
// requests only the metadata, because a whole definition may have hundreds of KB.
func (c *Connection) DefinitionState(ctx context.Context, gvr schema.GroupVersionResource) (string, error) {
	m, err := c.meta.Resource(definitions).Get(ctx, gvr.GroupResource().String(), metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return stateOfDefinition(&m.ObjectMeta), nil
}

// stateOfDefinition returns a string that changes when a CustomResourceDefinition is updated or created again.
func stateOfDefinition(m *metav1.ObjectMeta) string { return fmt.Sprintf("%s/%d", m.UID, m.Generation) }

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// Define returns the description of a resource (names, scope and columns) in its CustomResourceDefinition.
func (c *Connection) Define(ctx context.Context, gvr schema.GroupVersionResource) (entry.ResourceInfo, error) {
	path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + gvr.GroupResource().String()
	data, err := c.Raw.Get().AbsPath(path).Do(ctx).Raw()
	if err != nil {
		return entry.ResourceInfo{}, err
	}
	var d definition
	if err := json.Unmarshal(data, &d); err != nil {
		return entry.ResourceInfo{}, fmt.Errorf("the definition of %s: %w", gvr.GroupResource(), err)
	}
	info := entry.ResourceInfo{
		Kind: d.Spec.Names.Kind, Singular: d.Spec.Names.Singular, ShortNames: d.Spec.Names.ShortNames,
		Namespaced: d.Spec.Scope == "Namespaced",
		Categories: append([]string{}, d.Spec.Names.Categories...), Columns: []entry.Column{},
		SelectableFields: []string{}, Deprecated: d.deprecated(gvr), Definition: stateOfDefinition(&d.Metadata),
	}
	if listKind := d.Spec.Names.ListKind; listKind != info.Kind+"List" {
		info.ListKind = listKind
	}
	for _, v := range d.Spec.Versions {
		if v.Name == gvr.Version {
			info.Columns = append(info.Columns, v.Columns...)
			for _, s := range v.Selectable {
				info.SelectableFields = append(info.SelectableFields, strings.TrimPrefix(s.JSONPath, "."))
			}
		}
	}
	if len(info.Columns) == 0 { // kube-apiserver prints the column AGE if the definition has no columns
		info.Columns = []entry.Column{{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}}
	}
	return info, nil
}
