package snapshot

// Filter says which objects are taken. Its zero value takes all.
type Filter struct {
	// Resources are the resources that are taken, as plural names or kinds, each with or without its group
	// (pods, deployments.apps, Widget.example.com); empty takes all.
	Resources []string `json:"resources,omitempty"`
	// Namespaces are those whose objects are taken; empty takes all. Objects that are in no namespace are taken only if this is empty.
	Namespaces []string `json:"namespaces,omitempty"`
	// Labels and Fields are selectors, as kubectl has them; empty selects everything. A field is named as in store.Query.
	Labels string `json:"labels,omitempty"`
	Fields string `json:"fields,omitempty"`
}
