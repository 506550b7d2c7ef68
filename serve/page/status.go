package page

import "time"

// Status is the state and the age of the served data. Unknown times are zero, and unknown texts empty.
type Status struct {
	// File is the name of the served file, and Of its type: mirror, store or snapshot. A mirror is kept up to date.
	File string `json:"file"`
	Of   string `json:"of"`
	// Version is the version of the serving program, and Now its clock, to compute ages.
	Version string    `json:"version,omitempty"`
	Now     time.Time `json:"now"`
	Bytes   int64     `json:"bytes,omitempty"`
	// Error is why changes cannot be stored; empty if they can.
	Error string `json:"error,omitempty"`
	// Forbidden lists the resources that the API server forbids to the mirror; empty if none.
	Forbidden string `json:"forbidden,omitempty"`
	// Memory is the memory budget of responses.
	Memory Memory `json:"memory"`
	// Snapshot is a snapshot's description of itself; nil for mirrors and stores.
	Snapshot    *Snapshot    `json:"snapshot,omitempty"`
	Collections []Collection `json:"collections"`
}

// Memory is the memory budget of responses: its size and usage in bytes, and the number of requests rejected for lack
// of memory.
type Memory struct {
	Size    int64 `json:"size"`
	Used    int64 `json:"used"`
	Refused int64 `json:"refused"`
}

// Snapshot is a snapshot's description of itself.
type Snapshot struct {
	TakenAt       time.Time `json:"takenAt,omitzero"`
	ClusterID     string    `json:"clusterID,omitempty"`
	ServerVersion string    `json:"serverVersion,omitempty"`
	Larder        string    `json:"larder,omitempty"`
	Encrypted     bool      `json:"encrypted,omitempty"`
	// LeftOut lists the omitted data with the reasons, one per entry.
	LeftOut []string `json:"leftOut,omitempty"`
}

// Collection is the state of one collection.
type Collection struct {
	Group      string `json:"group,omitempty"`
	Version    string `json:"version"`
	Resource   string `json:"resource"`
	Namespaced bool   `json:"namespaced"`
	// Namespace and the selectors define the collection's part of the resource; Scope describes it in words.
	Namespace     string `json:"namespace,omitempty"`
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	Scope         string `json:"scope"`
	// Metadata says that the collection has only the metadata of objects.
	Metadata bool `json:"metadata,omitempty"`
	// Hidden is why the objects are not served; empty if they are.
	Hidden string `json:"hidden,omitempty"`

	Objects         int    `json:"objects"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// State describes the source of the data in a few words. Notes are the texts of the known defects (entry.Note).
	// Well is false if the state needs attention.
	State       string    `json:"state"`
	Notes       []string  `json:"notes,omitempty"`
	Well        bool      `json:"well"`
	LastContact time.Time `json:"lastContact,omitzero"`
	// Live is the mirror's record of its work; nil if the collection is not being mirrored.
	Live *Live `json:"live,omitempty"`
}

// Live is a mirror's work on a collection since its start.
type Live struct {
	Resumes int `json:"resumes"`
	Watches int `json:"watches"`
	Lists   int `json:"lists"`
	// Relists counts relists by reason; it excludes the list of a cold start.
	Relists  map[string]int `json:"relists,omitempty"`
	Received int64          `json:"received"`
	// Error is the fault of the connection or the store; empty if there is none.
	Error string `json:"error,omitempty"`
	// Unguarded lists changes of the server that would go unnoticed, and why.
	Unguarded []string `json:"unguarded,omitempty"`
	// IncidentTotals counts, by cause, how often objects differed from the server's state.
	IncidentTotals map[string]int `json:"incidentTotals,omitempty"`
}
