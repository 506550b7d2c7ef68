package page

import "time"

// Kinds of changes.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
	// Replaced means that the object was deleted, and another one created under its name.
	Replaced = "replaced"
)

// ChangesQuery selects changes.
type ChangesQuery struct {
	// Since is the time of the earliest change.
	Since time.Time
	// Limit is the maximum number of changes; the newest are returned.
	Limit int
	// Kind is a resource with its group, such as deployments.apps or pods. Namespace is the name of a namespace. Name
	// is a substring of object names. An empty field selects everything.
	Kind, Namespace, Name string
}

// Record is a list of changes since a time.
type Record struct {
	Changes []Change `json:"changes"`
	// Counts has the number of selected objects that have changed, by kind (see ChangesQuery.Kind). For each collection
	// it counts up to the query's limit, so it includes objects whose changes exceed the limit of Changes.
	Counts map[string]int `json:"counts,omitempty"`
	// Since is the query's time, or a later time before which changes may be missing.
	Since time.Time `json:"since"`
}

// Change is the change of one object.
type Change struct {
	// Time is accurate to a minute. It is zero if unknown, as between two snapshots.
	Time time.Time `json:"time,omitzero"`
	// Kind is Added, Changed, Removed or Replaced.
	Kind string `json:"kind"`
	// Group, Version and Resource are those in the API's URL; Resource is a plural.
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Fields are the changed fields; empty if they are unknown, or if the object was added or removed.
	Fields []Field `json:"fields,omitempty"`
	// Note explains why fields are missing; empty if none are.
	Note string `json:"note,omitempty"`
}

// Field is a difference in one field of an object.
type Field struct {
	// Path is the field's path, such as spec.template.spec.containers[name=web]; empty for the whole object.
	Path string `json:"path"`
	// Old and New are YAML; Old is empty for an added field, New for a removed one.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Comparison is the difference between two files.
type Comparison struct {
	// A is the older file, and B the served file.
	A Side `json:"a"`
	B Side `json:"b"`
	// Added, Removed, Changed, Replaced and Same are numbers of objects; Same counts the equal ones.
	Added    int `json:"added"`
	Removed  int `json:"removed"`
	Changed  int `json:"changed"`
	Replaced int `json:"replaced"`
	Same     int `json:"same"`
	// Changes are sorted by resource and key. Left is the number of further changes.
	Changes []Change `json:"changes"`
	Left    int      `json:"left,omitempty"`
	// Notes say which parts were not compared, and why.
	Notes []string `json:"notes,omitempty"`
}

// Side is one of the two compared files.
type Side struct {
	File    string    `json:"file"`
	TakenAt time.Time `json:"takenAt,omitzero"`
}

// Ref identifies an object.
type Ref struct{ Group, Version, Resource, Namespace, Name string }
