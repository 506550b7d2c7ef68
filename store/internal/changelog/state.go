package changelog

import (
	"time"

	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/internal/format"
)

type State struct {
	// NextSeq is the number of the next record or tombstone. It also numbers records without a changelog.
	NextSeq uint64
	// Since is the number from which on every record is in the changelog; 0 without a changelog.
	Since uint64
	// Lacks is the highest number of a delete that may be missing. A consumer with a lower offset is reset.
	Lacks      uint64
	Tombstones int
	// Retain is how long tombstones are kept for readers without a cursor; 0 keeps them for cursors only.
	Retain time.Duration
	// Marked is NextSeq after the last transaction that dated its changes; 0 if there is none.
	Marked uint64
	// ListedSeq is the number of the last change that does not continue the earlier states, for example from a list. Later
	// changes are events with ascending resourceVersions, from ListedRV on; it is empty if unknown.
	ListedSeq uint64
	ListedRV  string
}

func StateOf(r *format.Info) State {
	return State{NextSeq: r.NextSeq, Since: r.FeedSince, Lacks: r.FeedLacks, Tombstones: r.Tombstones,
		Retain: max(r.Retain, 0), Marked: r.Marked, ListedSeq: r.ListedSeq, ListedRV: r.ListedRV}
}

func (s *State) Store(r *format.Info) {
	r.NextSeq, r.FeedSince, r.FeedLacks, r.Tombstones, r.Retain = s.NextSeq, s.Since, s.Lacks, s.Tombstones, s.Retain
	r.Marked, r.ListedSeq, r.ListedRV = s.Marked, s.ListedSeq, s.ListedRV
}

func (s *State) Kept() bool { return s.Since != 0 }

// Has reports whether the changelog must have an entry for the record with that number.
func (s *State) Has(seq uint64) bool { return s.Kept() && seq >= s.Since }

func (s *State) Last() uint64 { return s.NextSeq - 1 }

// Oldest returns the lowest offset after which no change is missing. There must be a changelog.
func (s *State) Oldest() uint64 { return max(s.Since-1, s.Lacks) }

// Break notes that changes up to now may be missing. It skips a number, to reset even a consumer at the last number.
func (s *State) Break() {
	s.Lacks = s.NextSeq
	s.NextSeq++
}

// Fits reports whether a changelog exists exactly if it has consumers. cursors are the cursors in the file.
func (s *State) Fits(cursors map[string]consumer.Position) bool {
	return s.Kept() == s.consumed(len(cursors))
}

func (s *State) consumed(cursors int) bool { return cursors > 0 || s.Retain > 0 }

func (s *State) next() uint64 {
	seq := s.NextSeq
	s.NextSeq++
	return seq
}
