package page

import "time"

// What became of an object.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
	// Replaced: the object was deleted, and another one was created under its name.
	Replaced = "replaced"
)

// ChangesQuery selects changes.
type ChangesQuery struct {
	// Since is the time of the earliest change.
	Since time.Time
	// Limit is the largest number of changes to return: the newest ones.
	Limit int
	// Kind is a resource with its group, such as deployments.apps or pods. Namespace is the name of a namespace. Name is a
	// part of the names of objects. An empty field selects everything.
	Kind, Namespace, Name string
}

// Record lists the changes since a time.
type Record struct {
	Changes []Change `json:"changes"`
	// Counts has the number of selected objects that have changed, by kind (see ChangesQuery.Kind), up to the query's
	// limit for each collection. It includes the changes beyond that limit over all collections.
	Counts map[string]int `json:"counts,omitempty"`
	// Since is that time, or a later one before which changes may be missing.
	Since time.Time `json:"since"`
}

// Change is what became of one object.
type Change struct {
	// Time is when it was, to a minute; zero if that is not known, as between two snapshots.
	Time time.Time `json:"time,omitzero"`
	// Kind is Added, Changed, Removed or Replaced.
	Kind string `json:"kind"`
	// Group and Version are those of the resource, whose name is in the plural, as in a URL of the API.
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Fields are those that differ; none if they are not known, or if the object came or went.
	Fields []Field `json:"fields,omitempty"`
	// Note says why there are no fields, or no more of them; empty if there is nothing to say.
	Note string `json:"note,omitempty"`
}

// Field is what differs at one place of an object.
type Field struct {
	// Path is where, as in spec.template.spec.containers[name=web]; empty is the object itself.
	Path string `json:"path"`
	// Old and New are lines of YAML; one of them is empty for what was added or removed.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Comparison is what differs between two files.
type Comparison struct {
	// A is the older side, and B what is served.
	A Side `json:"a"`
	B Side `json:"b"`
	// Added and the others count objects; Same are those without a difference.
	Added    int `json:"added"`
	Removed  int `json:"removed"`
	Changed  int `json:"changed"`
	Replaced int `json:"replaced"`
	Same     int `json:"same"`
	// Changes are the differences by resource, then by key; Left says how many more there are.
	Changes []Change `json:"changes"`
	Left    int      `json:"left,omitempty"`
	// Notes say what was not compared, and why.
	Notes []string `json:"notes,omitempty"`
}

// Side is one of the files that are compared.
type Side struct {
	File    string    `json:"file"`
	TakenAt time.Time `json:"takenAt,omitzero"`
}

// Ref names an object.
type Ref struct{ Group, Version, Resource, Namespace, Name string }
