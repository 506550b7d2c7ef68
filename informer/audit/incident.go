package audit

import (
	"slices"
	"time"

	"github.com/larder-dev/larder/entry"
)

// Cause says how it was noticed that the stored objects were not what they should be.
type Cause string

// The causes.
const (
	// CauseAudit: they were compared with the server's; see informer.Informer.Audit.
	CauseAudit Cause = "Audit"
	// CauseDamaged: the file had lost some of them.
	CauseDamaged Cause = "Damaged"
)

// Causes returns every cause.
func Causes() []Cause { return []Cause{CauseAudit, CauseDamaged} }

// Kind says how an object that is stored differed from the server's.
type Kind string

// The kinds.
const (
	// Missing: the server has it, and it was not stored.
	Missing Kind = "Missing"
	// Ghost: it was stored, and the server does not have it.
	Ghost Kind = "Ghost"
	// Differs: another state of it was stored; if both have the same resourceVersion, another body.
	Differs Kind = "Differs"
	// OtherObject: another object, with another UID, was stored under its key.
	OtherObject Kind = "OtherObject"
)

// Finding is one object that was not what it should be, and has been repaired.
type Finding struct {
	Key  string
	Kind Kind
	// Stored is what there was and Server what the server had. Without a UID there was none, or, of Stored, it is not
	// known any more. If they are the same the bodies differed.
	Stored, Server entry.ObjectRef
}

// Incident is objects that were lost or changed without the stream saying so, and have been repaired. The handlers
// have been told of the difference.
type Incident struct {
	At    time.Time
	Cause Cause
	// Reason of the list that has repaired it: a reflector.Reason.
	Reason string
	// Findings are the first of them, in the order of the repair; More is how many others there were.
	Findings []Finding
	More     int
}

const (
	maxFindings  = 100
	maxIncidents = 10
)

// findings are the first of some, and the number of the others.
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

// incidents are those of a run. The Auditor's mu guards them.
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

// count is how many there were.
func (s *incidents) count() (n int) {
	for _, of := range s.totals {
		n += of
	}
	return n
}

// since returns what was found after the first so many.
func (s *incidents) since(before int) (f findings) {
	n := min(s.count()-before, len(s.newest))
	for _, inc := range slices.Backward(s.newest[:n]) {
		f.add(inc.Findings...)
		f.more += inc.More
	}
	return f
}

// String is a line for logs and the command line.
func (f Finding) String() string {
	stored, server := f.Stored.ResourceVersion, f.Server.ResourceVersion
	switch f.Kind {
	case Missing:
		return f.Key + ": missing here, the server has it at " + server
	case Ghost:
		return f.Key + ": here at " + orUnknown(stored) + ", and the server does not have it"
	case OtherObject:
		return f.Key + ": another object here (" + orUnknown(f.Stored.UID) + "), the server has " + f.Server.UID +
			" at " + server
	case Differs:
		if f.Stored == f.Server {
			return f.Key + ": another body here than the server has, both at " + server
		}
	}
	return f.Key + ": here at " + orUnknown(stored) + ", the server has it at " + server
}

func orUnknown(s string) string {
	if s == "" {
		return "an unknown state"
	}
	return s
}
