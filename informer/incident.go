package informer

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/reflector"
)

// IncidentCause says how it was noticed that the stored objects were not what they should be.
type IncidentCause string

// The causes.
const (
	// CauseAudit: they were compared with the server's; see Informer.Audit.
	CauseAudit IncidentCause = "Audit"
	// CauseDamaged: the file had lost some of them.
	CauseDamaged IncidentCause = "Damaged"
)

// IncidentCauses returns every cause.
func IncidentCauses() []IncidentCause { return []IncidentCause{CauseAudit, CauseDamaged} }

// FindingKind says how an object that is stored differed from the server's.
type FindingKind string

// The kinds.
const (
	// Missing: the server has it, and it was not stored.
	Missing FindingKind = "Missing"
	// Ghost: it was stored, and the server does not have it.
	Ghost FindingKind = "Ghost"
	// Differs: another state of it was stored; if both have the same resourceVersion, another body.
	Differs FindingKind = "Differs"
	// OtherObject: another object, with another UID, was stored under its key.
	OtherObject FindingKind = "OtherObject"
)

// Finding is one object that was not what it should be, and has been repaired.
type Finding struct {
	Key  string
	Kind FindingKind
	// Stored is what there was and Server what the server had. Without a UID there was none; Stored also if it is not
	// known any more. If they are the same the bodies differed.
	Stored, Server entry.ObjectRef
}

// Incident is objects that were lost or changed without the stream saying so, and have been repaired. The handlers have been told of the difference.
type Incident struct {
	At    time.Time
	Cause IncidentCause
	// Reason of the list that has repaired it.
	Reason reflector.Reason
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

// incidents are what Status shows of them.
type incidents struct {
	mu     sync.Mutex
	newest []Incident            // guarded by mu
	totals map[IncidentCause]int // guarded by mu
}

func (s *incidents) add(inc Incident) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.totals == nil {
		s.totals = map[IncidentCause]int{}
	}
	s.totals[inc.Cause]++
	s.newest = append([]Incident{inc}, s.newest[:min(len(s.newest), maxIncidents-1)]...)
}

// list returns the newest first, and how many there were of each cause.
func (s *incidents) list() (newest []Incident, totals map[IncidentCause]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	totals = map[IncidentCause]int{}
	for cause, n := range s.totals {
		totals[cause] = n
	}
	return slices.Clone(s.newest), totals
}

// count is how many there were.
func (s *incidents) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.totals {
		n += of
	}
	return n
}

// since returns what was found after the first so many.
func (s *incidents) since(before int) (f findings) {
	n := s.count() - before
	newest, _ := s.list()
	for _, inc := range slices.Backward(newest[:min(n, len(newest))]) {
		f.add(inc.Findings...)
		f.more += inc.More
	}
	return f
}

// noteIncident records an incident, if anything was found. It logs keys and resourceVersions, and no contents.
func (i *Informer) noteIncident(ctx context.Context, cause IncidentCause, reason reflector.Reason, f findings) {
	if f.none() {
		return
	}
	inc := Incident{At: i.clock.Now(), Cause: cause, Reason: reason, Findings: f.first, More: f.more}
	i.incidents.add(inc)
	lines := make([]string, len(f.first))
	for n, found := range f.first {
		lines[n] = found.String()
	}
	klog.FromContext(ctx).Info("Stored objects were not what the server has, and have been repaired", "type", i.o.ObjectDescription,
		"cause", cause, "list", reason, "objects", len(f.first)+f.more, "findings", lines)
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
		return f.Key + ": another object here (" + orUnknown(f.Stored.UID) + "), the server has " + f.Server.UID + " at " + server
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
