package state

import "github.com/larder-dev/larder/entry"

// Covers is the state that covers the writes in the memtable.
type Covers struct {
	entry.Info
	Settled *Settled // the last list that has ended; nil if none has since a commit
	// Timeline and Oldest are those of the history; see history.Window.Timeline. Zero without one.
	Timeline uint64
	Oldest   string
}

// Settled describes a list that has ended: the collection need not be listed anew.
type Settled struct {
	Losses    int  // Collection.Losses when the list began; a later loss requires another list
	Rewritten bool // true if every body was rewritten, so that old dictionaries may be unused
}
