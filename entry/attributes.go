package entry

// Attributes are what a collection's contents depend on besides its identity.
// They are stored with the contents and compared at contact with the server:
// a difference does not hide the data (an offline or upgraded agent still
// finds it) but is repaired by a relist that writes every body anew.
type Attributes struct {
	// ClusterID tells clusters apart: the UID of the namespace kube-system, or
	// what the caller gives. Empty is unknown, and matches any.
	ClusterID string
	// Codec and Schema are the Name and the Fingerprint of the codec.
	Codec  string
	Schema string
	// Transform is the caller's version of its transform function.
	Transform string
	// OpenAPI is the server's hash of the group-version's schema. Empty is
	// unknown, and matches any.
	OpenAPI string
}

// ResourceInfo is how people name the resource of a collection. It is stored
// so that the command line works without a server.
type ResourceInfo struct {
	Kind       string
	Singular   string
	ShortNames []string
	// Namespaced: objects are in namespaces. false may also be that it is not known; what a store returns is what the keys
	// say, if there are any.
	Namespaced bool
	// Categories are the groups of resources that it belongs to, such as "all".
	Categories []string
	// Columns are those that kubectl prints of a custom resource (additionalPrinterColumns). Empty for other resources.
	Columns []Column
}

// Column is one of the additionalPrinterColumns of a custom resource: see the type CustomResourceColumnDefinition of
// Kubernetes.
type Column struct {
	Name string `msgpack:"name" json:"name"`
	// Type is integer, number, string, boolean or date, Format a modifier of it such as int32 or password.
	Type   string `msgpack:"type" json:"type"`
	Format string `msgpack:"format,omitempty" json:"format,omitempty"`
	// Priority 0 is printed always, others with -o wide.
	Priority int32 `msgpack:"priority,omitempty" json:"priority,omitempty"`
	// JSONPath is where the value is, such as .spec.size.
	JSONPath string `msgpack:"jsonPath" json:"jsonPath"`
}

// With is i with what newer says; one that knows less of the same kind changes nothing. nil Categories and Columns are
// unknown, empty ones are none.
func (i ResourceInfo) With(newer ResourceInfo) ResourceInfo {
	less := newer.ShortNames == nil && !newer.Namespaced && newer.Categories == nil && newer.Columns == nil
	if less && (newer.Kind == i.Kind || newer.Kind == "" && newer.Singular == "") {
		return i
	}
	if newer.Kind == i.Kind && newer.Categories == nil {
		newer.Categories = i.Categories
	}
	if newer.Kind == i.Kind && newer.Columns == nil {
		newer.Columns = i.Columns
	}
	if len(newer.Categories) == 0 { // as it is read back
		newer.Categories = nil
	}
	if len(newer.Columns) == 0 {
		newer.Columns = nil
	}
	return newer
}
