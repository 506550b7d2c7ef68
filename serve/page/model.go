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

// Added, Removed, Changed and Replaced are the kinds of changes of an object.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
	// Replaced means that the object was deleted, and a new object was created under the same name.
	Replaced = "replaced"
)

// ChangesQuery selects changes of objects in the changelog.
type ChangesQuery struct {
	Since time.Time
	// Limit is the maximum number of changes; the newest are returned.
	Limit int
	// Kind is the plural of a resource with its group, such as deployments.apps or pods. Namespace is the name of a
	// namespace. Name is a part of object names. An empty field selects everything.
	Kind, Namespace, Name string
}

// Record has the selected changes since a time.
type Record struct {
	Changes []Change `json:"changes"`
	// Counts has the number of selected objects that have changed, by kind, such as deployments.apps. It may exceed the
	// length of Changes: Counts applies the limit of the query to each collection, Changes to all changes.
	Counts map[string]int `json:"counts,omitempty"`
	// Since is the requested time. If earlier changes may be missing, it is the time from which changes are complete.
	Since time.Time `json:"since"`
}

// Change is one change of an object.
type Change struct {
	// Time is accurate to a minute. It is zero if unknown, as for a difference between two snapshots.
	Time time.Time `json:"time,omitzero"`
	// Kind is Added, Changed, Removed or Replaced.
	Kind string `json:"kind"`
	// Group, Version and Resource are those in the URL of the object; Resource is the plural, such as pods.
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Fields are the fields of the object that differ; empty if unknown, or if the object was added or removed.
	Fields []Field `json:"fields,omitempty"`
	// Note explains why Fields is incomplete; "" if it is complete.
	Note string `json:"note,omitempty"`
}

// Field is a difference in one field of a changed object.
type Field struct {
	// Path is the field's path, such as spec.template.spec.containers[name=web]; empty for the whole object.
	Path string `json:"path"`
	// Old and New are the field's values as YAML. Old is empty for an added field, New for a removed field.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Comparison lists the differences between the served file and an older one.
type Comparison struct {
	// A describes the older file, and B the served file.
	A Side `json:"a"`
	B Side `json:"b"`
	// Added, Removed, Changed, Replaced and Same count objects by the result of their comparison. Same: no difference.
	Added    int `json:"added"`
	Removed  int `json:"removed"`
	Changed  int `json:"changed"`
	Replaced int `json:"replaced"`
	Same     int `json:"same"`
	// Changes are sorted by resource and key. Left is the number of further changes that are not in the list.
	Changes []Change `json:"changes"`
	Left    int      `json:"left,omitempty"`
	// Notes say which parts of the files were not compared, and why.
	Notes []string `json:"notes,omitempty"`
}

// Side describes one of the two compared files.
type Side struct {
	File    string    `json:"file"`
	TakenAt time.Time `json:"takenAt,omitzero"`
}

// Ref identifies an object on the API server.
type Ref struct{ Group, Version, Resource, Namespace, Name string }
