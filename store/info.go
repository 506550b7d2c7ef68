package store

import "time"

// ObjectRef identifies one state of one object.
type ObjectRef struct {
	Key             string
	UID             string
	ResourceVersion string
}

// Info is the state of a collection as of one transaction.
type Info struct {
	Identity   Identity
	Attributes Attributes
	Resource   ResourceInfo
	// ResourceVersion covers every object in the collection. Empty means that
	// nothing can be resumed.
	ResourceVersion string
	// Complete is set once a whole list has been stored; an empty complete
	// collection was listed, and there was nothing.
	Complete bool
	// MustRelist is why the contents can be served but not resumed; empty if
	// they can.
	MustRelist string
	Objects    int
	// LastContact is when the server was last heard.
	LastContact time.Time
	// NextSeq is the sequence number that the next written record gets.
	NextSeq uint64
	// Newest are a few of the stored objects with the highest resourceVersion,
	// newest first: the reflector compares them with the server to find one that was
	// rewound. May be empty.
	Newest []ObjectRef
}
