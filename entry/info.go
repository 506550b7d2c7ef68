package entry

import "time"

// Info is the state of a collection as of one transaction.
type Info struct {
	Identity   Identity
	Attributes Attributes
	Resource   ResourceInfo
	// ResourceVersion covers every object in the collection. Empty means that no watch can resume. A resourceVersion that
	// cannot be compared (see apimachinery's CompareResourceVersion) is never stored: then ResourceVersion is empty and
	// MustRelist is MustRelistOpaque.
	ResourceVersion string
	// Complete is true once a whole list has been stored, even an empty one.
	Complete bool
	// MustRelist is the reason why readers get the contents but no watch can resume; empty if a watch can resume.
	MustRelist string
	Objects    int
	// LastContact is when the server last confirmed that the stored objects are its current state, or sent a newer state.
	LastContact time.Time
	// NextSeq is the sequence number of the next record in the collection.
	NextSeq uint64
	// Newest are a few of the stored objects with the highest resourceVersion, newest first. The rewind check compares
	// them with the server, to detect a server that was restored to an older state. Newest may be empty.
	Newest []ObjectRef
	// LeftOut names refused objects that the next start of an informer fetches: at most MaxLeftOut, in key order. Callers
	// must not modify it. LeftOutMore is true if there may be more refused objects, which only a list can deliver.
	LeftOut     []LeftOut
	LeftOutMore bool
	// Sealed is true if new records are sealed, that is, encrypted (Options.Encryption). PlainText is true if records or
	// free pages of the file still have plain text; Rekey removes it.
	Sealed, PlainText bool
}

// Clone returns the Info with a copy of Newest.
func (i Info) Clone() Info {
	i.Newest = append([]ObjectRef(nil), i.Newest...)
	return i
}

// MustRelistOpaque is the value of Info.MustRelist for servers whose resourceVersions cannot be compared. The contents
// are one state of the server, but no watch can resume, so each start of an informer lists.
const MustRelistOpaque = "the server's resourceVersions cannot be compared"

// MaxLeftOut is the maximum number of refused objects in Info.LeftOut.
const MaxLeftOut = 100
