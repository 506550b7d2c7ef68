package source

// Audited is what came of comparing one collection with the server.
type Audited struct {
	// Collection is the id; Resource, Scope and Representation say what it holds.
	Collection     string `json:"collection"`
	Resource       string `json:"resource"`
	Scope          string `json:"scope,omitempty"`
	Representation string `json:"representation"`
	// Objects is how many the server has.
	Objects int `json:"objects"`
	// Differ is how many objects were not what the server has, and Keys names up to ten. Listed: everything was listed for
	// that.
	Differ int      `json:"differ"`
	Keys   []string `json:"keys"`
	Listed bool     `json:"listed,omitempty"`
	// Error is why that was not finished; empty if it was.
	Error string `json:"error,omitempty"`
}
