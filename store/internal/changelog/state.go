package changelog

import (
	"time"

	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/format"
)

// State is the state of the changelog in the info record of a collection.
type State struct {
	// NextSeq is the number of the next record or tombstone. Records are numbered without a changelog too.
	NextSeq uint64
	// Since is the number from which on every record is in the changelog; 0 if there is no changelog.
	Since uint64
	// Lacks is the highest number whose delete may be missing. A consumer with a lower offset is reset.
	Lacks uint64
	// Tombstones is the number of tombstones.
	Tombstones int
	// Retain is how long tombstones are kept for readers that have no cursor; 0 keeps them for cursors only.
	Retain time.Duration
	// Marked is NextSeq after the last transaction that dated its changes; 0 if there is none.
	Marked uint64
	// ListedSeq is the number of the last change that does not continue the earlier states, for example one from a
	// list. ListedRV is the oldest resourceVersion from which the later changes continue: they are events with
	// ascending resourceVersions. It is empty if unknown.
	ListedSeq uint64
	ListedRV  string
}

// StateOf returns the state in an info record.
func StateOf(r *format.Info) State {
	return State{NextSeq: r.NextSeq, Since: r.FeedSince, Lacks: r.FeedLacks, Tombstones: r.Tombstones,
		Retain: max(r.Retain, 0), Marked: r.Marked, ListedSeq: r.ListedSeq, ListedRV: r.ListedRV}
}

// Store puts the state into an info record.
func (s *State) Store(r *format.Info) {
	r.NextSeq, r.FeedSince, r.FeedLacks, r.Tombstones, r.Retain = s.NextSeq, s.Since, s.Lacks, s.Tombstones, s.Retain
	r.Marked, r.ListedSeq, r.ListedRV = s.Marked, s.ListedSeq, s.ListedRV
}

// Kept reports whether there is a changelog.
func (s *State) Kept() bool { return s.Since != 0 }

// Has reports whether the changelog must have an entry for a record with that number.
func (s *State) Has(seq uint64) bool { return s.Kept() && seq >= s.Since }

// Last returns the number of the last change.
func (s *State) Last() uint64 { return s.NextSeq - 1 }

// Oldest returns the lowest offset after which no change is missing, if there is a changelog.
func (s *State) Oldest() uint64 { return max(s.Since-1, s.Lacks) }

// Break records that the changelog may lack changes up to now. It skips a number, so that a consumer at the last number
// is reset too.
func (s *State) Break() {
	s.Lacks = s.NextSeq
	s.NextSeq++
}

// Fits reports whether there is a changelog exactly if it has consumers. cursors are the cursors in the file.
func (s *State) Fits(cursors map[string]consumer.Position) bool {
	return s.Kept() == s.consumed(len(cursors))
}

func (s *State) consumed(cursors int) bool { return cursors > 0 || s.Retain > 0 }

func (s *State) next() uint64 {
	seq := s.NextSeq
	s.NextSeq++
	return seq
}
