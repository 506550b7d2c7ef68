package engine

import "github.com/larder-dev/larder/entry"

// Covers is the state of a collection after the writes in its memtable: the Info that the next commit stores with them,
// and further fields that only the commit uses.
type Covers struct {
	entry.Info
	EndedList *EndedList // EndedList is the last list that has ended since the last commit, or nil.
	// Timeline is the number of the timeline of the collection's history, and Oldest the oldest resourceVersion from which
	// a watch can follow it; see history.Window.Timeline. They are zero without a history.
	Timeline uint64
	Oldest   string
}

// EndedList describes a list that ended since the last commit. The next commit ends the need for a relist.
type EndedList struct {
	Losses    int  // Losses is Collection.Losses at the start of the list. If that has grown, the list must be repeated.
	Rewritten bool // Rewritten is true if the list rewrote every record, so that old dictionaries may be unused.
}
