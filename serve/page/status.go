package page

import "time"

// Status is what is served, and how old it is. All times are zero, and texts empty, where something is not known.
type Status struct {
	// File is the name of what is served, and Of its kind: mirror, store or snapshot. A mirror is kept up to date.
	File string `json:"file"`
	Of   string `json:"of"`
	// Version is that of the program that serves, and Now its clock, by which ages are told.
	Version string    `json:"version,omitempty"`
	Now     time.Time `json:"now"`
	Bytes   int64     `json:"bytes,omitempty"`
	// Error is why changes cannot be stored; empty while they can.
	Error string `json:"error,omitempty"`
	// Forbidden names the resources that the API server forbids to the mirror; empty if it forbids none.
	Forbidden string `json:"forbidden,omitempty"`
	// Memory is the budget for answers.
	Memory Memory `json:"memory"`
	// Snapshot is what a snapshot says about itself; nil for others.
	Snapshot    *Snapshot    `json:"snapshot,omitempty"`
	Collections []Collection `json:"collections"`
}

// Memory is the budget for answers in bytes, how much of it is in use, and how many requests were refused since it was
// spent.
type Memory struct {
	Size    int64 `json:"size"`
	Used    int64 `json:"used"`
	Refused int64 `json:"refused"`
}

// Snapshot is what a snapshot says about itself.
type Snapshot struct {
	TakenAt       time.Time `json:"takenAt,omitzero"`
	ClusterID     string    `json:"clusterID,omitempty"`
	ServerVersion string    `json:"serverVersion,omitempty"`
	Larder        string    `json:"larder,omitempty"`
	Encrypted     bool      `json:"encrypted,omitempty"`
	// LeftOut says what is not in it and why, one thing an entry.
	LeftOut []string `json:"leftOut,omitempty"`
}

// Collection is the state of one collection.
type Collection struct {
	Group      string `json:"group,omitempty"`
	Version    string `json:"version"`
	Resource   string `json:"resource"`
	Namespaced bool   `json:"namespaced"`
	// Namespace and the selectors are the part of the resource that the collection has; Scope says the same for people.
	Namespace     string `json:"namespace,omitempty"`
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	Scope         string `json:"scope"`
	// Metadata says that only the metadata of the objects are there.
	Metadata bool `json:"metadata,omitempty"`
	// Hidden is why the objects are not served; empty if they are.
	Hidden string `json:"hidden,omitempty"`

	Objects         int    `json:"objects"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// State says in a few words where the data come from, and Notes are the texts of their known defects (entry.Note).
	// Well is false if somebody should look.
	State       string    `json:"state"`
	Notes       []string  `json:"notes,omitempty"`
	Well        bool      `json:"well"`
	LastContact time.Time `json:"lastContact,omitzero"`
	// Live is what the mirror knows of its own work; nil if nothing mirrors the collection now.
	Live *Live `json:"live,omitempty"`
}

// Live is what a mirror has done for a collection since it started.
type Live struct {
	Resumes int `json:"resumes"`
	Watches int `json:"watches"`
	Lists   int `json:"lists"`
	// Relists counts lists by their reason, that of a cold start apart.
	Relists  map[string]int `json:"relists,omitempty"`
	Received int64          `json:"received"`
	// Error is what is wrong with the connection or the store; empty while nothing is.
	Error string `json:"error,omitempty"`
	// Unguarded are the changes of the server that would not be noticed, and why.
	Unguarded []string `json:"unguarded,omitempty"`
	// IncidentTotals counts by cause how often objects were not what the server has.
	IncidentTotals map[string]int `json:"incidentTotals,omitempty"`
}
