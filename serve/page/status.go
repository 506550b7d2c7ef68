package page

import "time"

// Status is the state and the age of the served data. Unknown times are zero, and unknown texts empty.
type Status struct {
	// File is the name of the served file, and Of its type: mirror, store or snapshot. A mirror is kept up to date.
	File string `json:"file"`
	Of   string `json:"of"`
	// Version is the version of the serving program. Now is the time of the response by its clock, to compute ages.
	Version string    `json:"version,omitempty"`
	Now     time.Time `json:"now"`
	Bytes   int64     `json:"bytes,omitempty"`
	// Error is why changes cannot be stored in the served file; empty if they can be stored.
	Error string `json:"error,omitempty"`
	// Forbidden lists the resources that the API server does not allow the mirror to read; empty if there are none.
	Forbidden string `json:"forbidden,omitempty"`
	Memory    Memory `json:"memory"`
	// Snapshot is the description in a snapshot's file; nil for mirrors and stores.
	Snapshot    *Snapshot    `json:"snapshot,omitempty"`
	Collections []Collection `json:"collections"`
}

// Memory is the usage of the memory budget for responses: its size and the memory in use in bytes, and the number of
// requests that were rejected for lack of memory.
type Memory struct {
	Size    int64 `json:"size"`
	Used    int64 `json:"used"`
	Refused int64 `json:"refused"`
}

// Snapshot is the description in a snapshot's file.
type Snapshot struct {
	TakenAt       time.Time `json:"takenAt,omitzero"`
	ClusterID     string    `json:"clusterID,omitempty"`
	ServerVersion string    `json:"serverVersion,omitempty"`
	Larder        string    `json:"larder,omitempty"`
	Encrypted     bool      `json:"encrypted,omitempty"`
	// LeftOut lists the data that the snapshot omits, with the reasons, one per entry.
	LeftOut []string `json:"leftOut,omitempty"`
}

// Collection is the state of one collection of the served data.
type Collection struct {
	Group      string `json:"group,omitempty"`
	Version    string `json:"version"`
	Resource   string `json:"resource"`
	Namespaced bool   `json:"namespaced"`
	// Namespace and the selectors say which objects the collection contains. Scope says the same in words.
	Namespace     string `json:"namespace,omitempty"`
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	Scope         string `json:"scope"`
	Metadata      bool   `json:"metadata,omitempty"`
	// Hidden is why the collection's objects are not served; empty if they are served.
	Hidden string `json:"hidden,omitempty"`

	Objects         int    `json:"objects"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// State says in a few words where the collection's data come from. Notes are the texts of the collection's known
	// defects. Well is false if the state needs attention.
	State       string    `json:"state"`
	Notes       []string  `json:"notes,omitempty"`
	Well        bool      `json:"well"`
	LastContact time.Time `json:"lastContact,omitzero"`
	// Live describes the mirror of the collection; nil if the collection is not being mirrored.
	Live *Live `json:"live,omitempty"`
}

// Live describes the work of a collection's mirror since its start.
type Live struct {
	Resumes int `json:"resumes"`
	Watches int `json:"watches"`
	Lists   int `json:"lists"`
	// Relists counts relists by reason. The first list of a mirror without stored objects does not count.
	Relists  map[string]int `json:"relists,omitempty"`
	Received int64          `json:"received"`
	// Error is why the connection to the API server or the store is degraded; empty if neither is.
	Error string `json:"error,omitempty"`
	// Unguarded lists kinds of changes on the API server that the mirror would not notice, with the reasons.
	Unguarded []string `json:"unguarded,omitempty"`
	// IncidentTotals counts, by cause, how often mirrored objects differed from those on the API server.
	IncidentTotals map[string]int `json:"incidentTotals,omitempty"`
}
