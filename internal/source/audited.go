package source

// Audited is the result of comparing one stored collection with the objects on the API server.
type Audited struct {
	Collection     string `json:"collection"`
	Resource       string `json:"resource"`
	Scope          string `json:"scope,omitempty"`
	Representation string `json:"representation"`
	// Objects is the number of the collection's objects on the API server.
	Objects int `json:"objects"`
	// Differ is the number of stored objects that differed from those on the API server, and Keys has up to ten of their
	// keys. Listed says that the comparison listed all objects.
	Differ int      `json:"differ"`
	Keys   []string `json:"keys"`
	Listed bool     `json:"listed,omitempty"`
	// Error is why the comparison was not completed; empty after a complete comparison.
	Error string `json:"error,omitempty"`
}
