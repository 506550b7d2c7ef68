package page

import "time"

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
