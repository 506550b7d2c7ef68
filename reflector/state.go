package reflector

// State is where the state machine stands; doc.go draws the transitions.
type State string

// The states. Each names what the reflector is doing, not how the contents are: Status.Err tells
// whether the connection is well.
const (
	// Restore asks the sink what it holds.
	Restore State = "Restore"
	// Verify is the contact before a watch: the Verify hook, and the probe of the server's resourceVersion. The look-ups
	// of the newest objects follow once a watch has been accepted; see guards.guard.
	Verify State = "Verify"
	// Drain watches with a short time-out until everything the probe had seen has been delivered.
	Drain State = "Drain"
	// Watch is the healthy state: a watch is being opened or is open, and nothing is known to be missing.
	Watch State = "Watch"
	// Relist pages through a list, and folds in a watch if there is more than one page; or takes the list from a watch
	// that begins with it.
	Relist State = "Relist"
	// Backoff waits after an error, then goes on where it was: Verify, or Relist if a list is due.
	Backoff State = "Backoff"
	// Degraded is Backoff for an answer that time alone does not mend: forbidden, not found, no
	// such verb. It waits no longer: rights, or a CRD, are often applied seconds after a controller.
	Degraded State = "Degraded"
	// Stopped is the end: the context or the sink.
	Stopped State = "Stopped"
)

// position is the whole state of the machine: where it stands, and the list that is due (none if empty).
type position struct {
	State  State
	Reason Reason
}

// outcomeKind is what came of being in a state. An empty one means that a step has passed and the state goes on.
type outcomeKind string

const (
	resumable outcomeKind = "resumable" // Restore, or Relist for want of anything: there is something to watch from
	level     outcomeKind = "level"     // Verify: nothing to drain
	behind    outcomeKind = "behind"    // Verify: the server has moved on, or that is yet to be asked; Watch: it had
	drained   outcomeKind = "drained"   // Drain: everything the probe had seen is delivered
	ended     outcomeKind = "ended"     // Drain, Watch: the watch ended in order
	listed    outcomeKind = "listed"    // Relist: the list is delivered
	failed    outcomeKind = "failed"    // transport or server error
	denied    outcomeKind = "denied"    // 403, 404, 405
	waited    outcomeKind = "waited"    // Backoff, Degraded: the time is up
	mustList  outcomeKind = "mustList"  // a list is due, for outcome.Reason
	stop      outcomeKind = "stop"      // the context ended or the sink is closed
)

// outcome is an outcomeKind with what belongs to it.
type outcome struct {
	Kind outcomeKind
	// Reason of mustList.
	Reason Reason
	// Wait before the list: there was one a moment ago.
	Wait bool
}

// next is the transition function. It is total: an outcome that a state cannot have leaves the position alone.
func next(p position, o outcome) position {
	switch o.Kind {
	case stop:
		return position{Stopped, p.Reason}
	case failed:
		return position{Backoff, p.Reason}
	case denied:
		return position{Degraded, p.Reason}
	case mustList:
		return listDue(p, o)
	}
	switch {
	case p.State == Restore && o.Kind == resumable, (p.State == Backoff || p.State == Degraded) && o.Kind == waited:
		if p.Reason != "" {
			return position{Relist, p.Reason}
		}
		return position{State: Verify}
	case p.State == Relist && o.Kind == resumable:
		return position{State: Verify}
	case p.State == Verify && o.Kind == level, p.State == Drain && o.Kind == drained, p.State == Relist &&
		o.Kind == listed:
		return position{State: Watch}
	case p.State == Verify && o.Kind == behind:
		return position{State: Drain}
	case p.State == Watch && o.Kind == behind:
		return position{State: Drain}
	case (p.State == Drain || p.State == Watch) && o.Kind == ended:
		return position{State: Verify}
	}
	return p
}

// listDue notes the reason for a list, and goes to it unless the machine is waiting anyway or has to.
func listDue(p position, o outcome) position {
	reason := stronger(p.Reason, o.Reason)
	switch {
	case p.State == Backoff || p.State == Degraded || p.State == Stopped:
		return position{p.State, reason}
	case o.Wait:
		return position{Backoff, reason}
	}
	return position{Relist, reason}
}

// stronger of two reasons for one list: the older one, unless only the newer one
// rewrites what is stored. Nothing is stored before the first list, so Cold stays.
func stronger(due, also Reason) Reason {
	switch {
	case due == "":
		return also
	case due != ReasonCold && also.Rewrites() && !due.Rewrites():
		return also
	}
	return due
}
