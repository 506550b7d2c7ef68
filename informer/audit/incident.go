package audit

import (
	"fmt"
	"slices"
	"time"

	"github.com/larder-dev/larder/entry"
)

// Cause is how wrong or missing stored objects were noticed.
type Cause string

// The causes.
const (
	// CauseAudit: an audit compared them with the server's; see informer.Informer.Audit.
	CauseAudit Cause = "Audit"
	// CauseDamaged: the file had lost some of them.
	CauseDamaged Cause = "Damaged"
)

// Causes returns every cause.
func Causes() []Cause { return []Cause{CauseAudit, CauseDamaged} }

// Kind is how a stored object differed from the server's.
type Kind string

// The kinds.
const (
	// Missing: the server has the object, and it was not stored.
	Missing Kind = "Missing"
	// Ghost: the object was stored, and the server does not have it.
	Ghost Kind = "Ghost"
	// Differs: another state of the object was stored, or, if the resourceVersions are equal, another body.
	Differs Kind = "Differs"
	// OtherObject: another object, with another UID, was stored under the key.
	OtherObject Kind = "OtherObject"
)

// Finding is one object that differed from the server's and has been repaired.
type Finding struct {
	Key  string
	Kind Kind
	// Stored is the state that was stored, and Server the server's. A reference without a UID means that there was none,
	// or, in Stored, that it is not known any more. If both are equal, the bodies differed.
	Stored, Server entry.ObjectRef
}

// Incident is a set of objects that were lost or changed without an event and have been repaired by one list. The
// handlers have been told of the differences.
type Incident struct {
	At    time.Time
	Cause Cause
	// Reason is the reflector.Reason of the list that repaired the objects.
	Reason string
	// Findings has the first of the objects, in the order of the repair. More is the number of others.
	Findings []Finding
	More     int
}

const (
	maxFindings  = 100
	maxIncidents = 10
)

// findings holds the first maxFindings findings, and the number of the others.
type findings struct {
	first []Finding
	more  int
}

func (f *findings) add(all ...Finding) {
	n := min(len(all), maxFindings-len(f.first))
	f.first = append(f.first, all[:n]...)
	f.more += len(all) - n
}

func (f *findings) none() bool { return len(f.first) == 0 }

// incidents holds the incidents of a run. The Auditor's mu guards it.
type incidents struct {
	newest []Incident
	totals map[Cause]int
}

func (s *incidents) add(inc Incident) {
	if s.totals == nil {
		s.totals = map[Cause]int{}
	}
	s.totals[inc.Cause]++
	s.newest = append([]Incident{inc}, s.newest[:min(len(s.newest), maxIncidents-1)]...)
}

// count returns the number of incidents.
func (s *incidents) count() (n int) {
	for _, of := range s.totals {
		n += of
	}
	return n
}

// since returns the findings of the incidents after the first before ones.
func (s *incidents) since(before int) (f findings) {
	n := min(s.count()-before, len(s.newest))
	for _, inc := range slices.Backward(s.newest[:n]) {
		f.add(inc.Findings...)
		f.more += inc.More
	}
	return f
}

// String describes the finding for logs and the command line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: stored %s, server %s", f.Key, f.Kind, state(f.Stored), state(f.Server))
}

func state(ref entry.ObjectRef) string {
	if ref.UID == "" {
		return "-" // none, or not known any more
	}
	return ref.UID + " at " + ref.ResourceVersion
}
