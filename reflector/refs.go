package reflector

// RefPage is one page of a list of identities.
type RefPage struct {
	// Refs in the order of the answer, which is that of their keys.
	Refs []ObjectRef
	// ResourceVersion of the list that the page is of.
	ResourceVersion string
	// Continue asks for the next page; empty at the end.
	Continue string
}
