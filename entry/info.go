package entry

import "time"

// Info is the state of a collection as of one transaction.
type Info struct {
	Identity   Identity
	Attributes Attributes
	Resource   ResourceInfo
	// ResourceVersion covers every object in the collection. Empty means that a watch cannot be resumed. A resourceVersion
	// that cannot be compared (see apimachinery's CompareResourceVersion) is never stored: then ResourceVersion is empty
	// and MustRelist is MustRelistOpaque.
	ResourceVersion string
	// Complete is true once a whole list has been stored. A complete collection without objects was listed, and the list
	// was empty.
	Complete bool
	// MustRelist is why the contents can be served but a watch cannot be resumed from them; empty if it can.
	MustRelist string
	Objects    int
	// LastContact is when the server last confirmed that the stored objects are its current state, or sent a newer
	// state.
	LastContact time.Time
	// NextSeq is the sequence number that the next record written to the collection will get.
	NextSeq uint64
	// Newest are a few of the stored objects with the highest resourceVersion, newest first. The rewind check compares
	// them with the server, to detect a server that was restored to an older state. May be empty.
	Newest []ObjectRef
	// LeftOut names refused objects that the next start fetches again: at most MaxLeftOut, in key order. It must not be
	// modified. LeftOutMore is true if there may be more of them, which only a list can deliver.
	LeftOut     []LeftOut
	LeftOutMore bool
	// Sealed is true if new records are sealed, that is, encrypted (Options.Encryption). PlainText is true if the file
	// still has plain text from before, in records or in free pages; Rekey removes it.
	Sealed, PlainText bool
}

// Clone returns the Info with its own copy of Newest.
func (i Info) Clone() Info {
	i.Newest = append([]ObjectRef(nil), i.Newest...)
	return i
}

// MustRelistOpaque is the value of Info.MustRelist if the server's resourceVersions cannot be compared. The contents
// are one state of the server, but no watch can resume from it, so each start of an informer lists.
const MustRelistOpaque = "the server's resourceVersions cannot be compared"

// MaxLeftOut is the maximum number of refused objects in Info.LeftOut.
const MaxLeftOut = 100
