package reflector

// State is a state of the state machine; doc.go draws the transitions.
type State string

// The states name the reflector's activity. Status.Err shows whether the connection works.
const (
	Restore State = "Restore"
	// Verify contacts the server before a watch: Options.Verify, and the probe of the server's resourceVersion. The
	// look-ups of the newest objects follow once a watch has been accepted.
	Verify State = "Verify"
	// Drain watches with a three-second time-out until the watch has reached the server's resourceVersion.
	Drain State = "Drain"
	// Watch is the healthy state: a watch is being opened or is open, and has caught up with the server.
	Watch State = "Watch"
	// Relist receives a list: pages, with a watch beside the list if there are several pages.
	Relist State = "Relist"
	// Refused probes the server after it has refused several watches from the stored resourceVersion. If the server's
	// resourceVersion has changed, the server will never serve the stored one, and Relist follows; otherwise Backoff.
	Refused State = "Refused"
	Backoff State = "Backoff"
	// Degraded is Backoff after an answer that waiting alone does not repair: forbidden, not found, no such verb. The
	// waits are those of Backoff, since RBAC rules and CRDs are often applied seconds after a controller.
	Degraded State = "Degraded"
	Stopped  State = "Stopped"
)

// position is the state of the machine: its State, and the reason of the list that is due ("" if none is).
type position struct {
	State  State
	Reason Reason
}

// outcomeKind is a State's result, which determines the next State; "" while the machine stays in the State.
type outcomeKind string

const (
	// Restore and Relist return resumable: the Sink has a resourceVersion to watch from.
	resumable outcomeKind = "resumable"
	// Verify returns level: the newest delivered resourceVersion is the server's, so no events are missing.
	level outcomeKind = "level"
	// Verify and Watch return behind: the server may be newer than the delivered events, so Drain follows.
	behind outcomeKind = "behind"
	// Drain returns drained: the watch has reached the server's resourceVersion at the connect.
	drained outcomeKind = "drained"
	// Drain and Watch return ended: the watch ended without an error, so Verify follows.
	ended  outcomeKind = "ended"
	listed outcomeKind = "listed"
	failed outcomeKind = "failed"
	denied outcomeKind = "denied"
	// Drain and Watch return refused: the server has refused several watches from one resourceVersion.
	refused  outcomeKind = "refused"
	waited   outcomeKind = "waited"
	mustList outcomeKind = "mustList"
	stop     outcomeKind = "stop"
)

type outcome struct {
	Kind outcomeKind
	// Reason is why the next list is due: if Kind is mustList, or if it is denied and a list follows the back-off.
	Reason Reason
	// Wait is true if a back-off must precede the list, because the last list was recent.
	Wait bool
}

// next returns the position after an outcome. An outcome that does not belong to the State changes nothing.
func next(p position, o outcome) position {
	switch o.Kind {
	case stop:
		return position{Stopped, p.Reason}
	case failed:
		return position{Backoff, p.Reason}
	case denied:
		return position{Degraded, stronger(p.Reason, o.Reason)}
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
	case (p.State == Drain || p.State == Watch) && o.Kind == refused:
		return position{State: Refused}
	case (p.State == Drain || p.State == Watch) && o.Kind == ended:
		return position{State: Verify}
	}
	return p
}

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

// stronger returns the reason for one list that serves two reasons: due, unless only the reason also requires that
// every stored object is replaced. ReasonCold stays, since nothing is stored before the first list.
func stronger(due, also Reason) Reason {
	switch {
	case due == "":
		return also
	case due != ReasonCold && also.Rewrites() && !due.Rewrites():
		return also
	}
	return due
}
