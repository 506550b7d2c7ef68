package entry

import "strings"

// Attributes describe everything, besides the identity, that a collection's contents depend on. They are stored with
// the objects, and compared with the current values at each connect to the server. If they differ, a relist writes
// every object anew. Until then readers get the stored objects, so a program that is offline or was upgraded finds its
// data.
type Attributes struct {
	// ClusterID identifies the cluster: the UID of the namespace kube-system, or the value that the caller sets. Empty
	// means unknown, and matches every value.
	ClusterID string `json:"clusterID,omitempty"`
	// Codec is the Codec.Name of the codec that encodes the objects, and Schema is its Codec.Fingerprint. If the server's
	// payloads are stored unchanged, Schema is codec.SentFingerprint, and the contents do not depend on Go types.
	Codec  string `json:"codec,omitempty"`
	Schema string `json:"schema,omitempty"`
	// Transform is the version of the caller's transform function.
	Transform string `json:"transform,omitempty"`
	// Wire is the encoding that the informer requests from the server, if the informer chooses it: "protobuf" or "JSON".
	// "JSON 1.39" is JSON because the server's version, 1.39, is newer than the Go types, whose protobuf would hide
	// fields. Empty means unknown.
	Wire string `json:"wire,omitempty"`
	// OpenAPI is the server's hash of the group-version's schema. Empty means unknown, and matches every value.
	OpenAPI string `json:"openAPI,omitempty"`
}

// NewerServer reports whether the informer requested JSON because the server is newer than the Go types.
func (a Attributes) NewerServer() bool { return strings.HasPrefix(a.Wire, "JSON ") }

// ResourceInfo has the names by which users refer to a resource. It is stored with a collection, so that the command
// line works without a server.
type ResourceInfo struct {
	Kind       string   `json:"kind,omitempty"`
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	// Namespaced is true for a namespaced resource. With false, a store derives it from the keys of the stored objects.
	Namespaced bool `json:"namespaced,omitempty"`
	// Categories are the categories of the resource, such as "all".
	Categories []string `json:"categories,omitempty"`
	// Columns are the additionalPrinterColumns of a custom resource. Empty for other resources.
	Columns []Column `json:"columns,omitempty"`
	// SelectableFields are the fields that select custom resources, such as spec.color. Empty for other resources.
	SelectableFields []string `json:"selectableFields,omitempty"`
	// Deprecated is the server's warning for a deprecated version of a custom resource. Empty for other resources.
	Deprecated string `json:"deprecated,omitempty"`
	// ListKind is the listKind of a custom resource's definition. Empty if it is Kind with "List" appended.
	ListKind string `json:"listKind,omitempty"`
	// Definition is the UID and generation of the CustomResourceDefinition. Empty for other resources.
	Definition string `json:"definition,omitempty"`
	// RequestedAs are the names, in lower case, under which larder sync requested the resource. If several resources of a
	// server share a name, these names mean this resource until the next request to the server.
	RequestedAs []string `json:"requestedAs,omitempty"`
}

// Column is one of the additionalPrinterColumns of a custom resource, the CustomResourceColumnDefinition of Kubernetes.
type Column struct {
	Name string `msgpack:"name" json:"name"`
	// Type is integer, number, string, boolean or date. Format refines Type, for example int32 or password.
	Type   string `msgpack:"type" json:"type"`
	Format string `msgpack:"format,omitempty" json:"format,omitempty"`
	// Priority is 0 for a column that is always printed. Columns with a higher priority are printed only with -o wide.
	Priority int32 `msgpack:"priority,omitempty" json:"priority,omitempty"`
	// JSONPath is the path of the column's value in the object, for example .spec.size.
	JSONPath string `msgpack:"jsonPath" json:"jsonPath"`
}

// With returns newer, completed from i. Nil means unknown; empty slices mean none. A nil RequestedAs is taken from i.
// If both have the same Kind, nil Categories, Columns and SelectableFields are taken from i too. Deprecated, ListKind
// and Definition are taken with the Columns, because they are from one definition.
//
// With returns i if newer adds nothing: no ShortNames, Namespaced, Categories, Columns, SelectableFields, Deprecated or
// RequestedAs, and either the same Kind, or neither Kind nor Singular.
func (i ResourceInfo) With(newer ResourceInfo) ResourceInfo {
	less := newer.ShortNames == nil && !newer.Namespaced && newer.Categories == nil && newer.Columns == nil &&
		newer.SelectableFields == nil && newer.Deprecated == "" && newer.RequestedAs == nil
	if less && (newer.Kind == i.Kind || newer.Kind == "" && newer.Singular == "") {
		return i
	}
	if newer.Kind == i.Kind && newer.Categories == nil {
		newer.Categories = i.Categories
	}
	if newer.Kind == i.Kind && newer.Columns == nil {
		newer.Columns, newer.ListKind, newer.Definition = i.Columns, i.ListKind, i.Definition
		if newer.Deprecated == "" {
			newer.Deprecated = i.Deprecated
		}
	}
	if newer.Kind == i.Kind && newer.SelectableFields == nil {
		newer.SelectableFields = i.SelectableFields
	}
	if newer.RequestedAs == nil {
		newer.RequestedAs = i.RequestedAs
	}
	if len(newer.Categories) == 0 { // A store decodes an empty slice as nil.
		newer.Categories = nil
	}
	if len(newer.Columns) == 0 {
		newer.Columns = nil
	}
	if len(newer.SelectableFields) == 0 {
		newer.SelectableFields = nil
	}
	return newer
}
