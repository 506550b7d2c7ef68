package state

import "github.com/larder-dev/larder/entry"

// Covers is the Info that covers the writes in the memtable, with further state for the commit.
type Covers struct {
	entry.Info
	EndedList *EndedList // the last list that has ended since the last commit; nil if there is none
	// Timeline and Oldest are copied from the history; see history.Window.Timeline. They are zero without a history.
	Timeline uint64
	Oldest   string
}

// EndedList describes a list that has ended, so that the collection need not be relisted.
type EndedList struct {
	Losses    int  // Collection.Losses at the start of the list; a later loss requires another list
	Rewritten bool // true if the list rewrote every body, so that old dictionaries may be unused
}
