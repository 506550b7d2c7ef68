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
	// Findings are what was repaired, a line each, and More how many others were. Listed: everything was listed for that.
	Findings []string `json:"findings"`
	More     int      `json:"more,omitempty"`
	Listed   bool     `json:"listed,omitempty"`
	// Error is why that was not finished; empty if it was.
	Error string `json:"error,omitempty"`
}

// Repaired is how many objects were not what the server has.
func (a Audited) Repaired() int { return len(a.Findings) + a.More }
