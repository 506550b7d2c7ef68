package reflector

// State is a state of the state machine; doc.go draws the transitions.
type State string

// The states. Each names the reflector's activity, not whether the contents are current. Status.Err shows whether the
// connection works.
const (
	// Restore reads the sink's Checkpoint.
	Restore State = "Restore"
	// Verify contacts the server before a watch: Options.Verify, and the probe of the server's resourceVersion. The
	// look-ups of the newest objects follow once a watch has been accepted; see guards.guard.
	Verify State = "Verify"
	// Drain watches with a three-second time-out until the stream has reached the server's resourceVersion at the
	// connect.
	Drain State = "Drain"
	// Watch is the healthy state: a watch is being opened or is open, and the stream has caught up with the server.
	Watch State = "Watch"
	// Relist receives a list. It comes in pages, with a watch beside the list if there are several; or from a watch
	// that begins with all objects.
	Relist State = "Relist"
	// Refused probes the server after it has refused several watches from the stored resourceVersion (see refusals.again).
	// If the server has moved on, it will never serve that resourceVersion, and Relist follows; otherwise Backoff.
	Refused State = "Refused"
	// Backoff waits after an error. Verify follows, or Relist if a list is due.
	Backoff State = "Backoff"
	// Degraded is Backoff after an answer that waiting alone does not repair: forbidden, not found, no such verb. Its
	// waits are the same, since RBAC rules and CRDs are often applied seconds after a controller.
	Degraded State = "Degraded"
	// Stopped is the final state: the context has ended or the sink is closed.
	Stopped State = "Stopped"
)

// position is the complete state of the machine: its State, and the reason of the list that is due ("" if none is).
type position struct {
	State  State
	Reason Reason
}

// outcomeKind is the result of a state of the state machine, and determines the next state. It is empty while the
// machine stays in the state.
type outcomeKind string

const (
	resumable outcomeKind = "resumable" // Restore, Relist: the sink has a resourceVersion to watch from
	// Verify: the stream is at the server's resourceVersion, so no events are missing.
	level   outcomeKind = "level"
	behind  outcomeKind = "behind"  // Verify, Watch: the server may be newer than the stream, so Drain follows
	drained outcomeKind = "drained" // Drain: the stream has reached the server's resourceVersion at the connect
	ended   outcomeKind = "ended"   // Drain, Watch: the watch ended without an error, so Verify follows
	listed  outcomeKind = "listed"  // Relist: the list is delivered
	failed  outcomeKind = "failed"  // a transport or server error, so Backoff follows
	denied  outcomeKind = "denied"  // a 403, 404 or 405, so Degraded follows
	// Drain, Watch: the server has refused several watches from one resourceVersion: probe it.
	refused  outcomeKind = "refused"
	waited   outcomeKind = "waited"   // Backoff, Degraded: the wait is over
	mustList outcomeKind = "mustList" // a list is due, for the reason in outcome.Reason
	stop     outcomeKind = "stop"     // any state: the context has ended or the sink is closed
)

// outcome is the result of a state, with the arguments for the next state.
type outcome struct {
	Kind outcomeKind
	// Reason is why the next list is due. It is set if Kind is mustList, and if Kind is denied and a list must follow
	// the back-off.
	Reason Reason
	// Wait is true if a back-off must precede the list, because the last list was recent.
	Wait bool
}

// next is the transition function of the state machine: it returns the position after an outcome. An outcome that does
// not belong to the current state leaves the position unchanged.
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

// listDue returns the machine's position after the outcome mustList: Relist, or Backoff if the machine is waiting or
// has to wait first.
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

// stronger returns the reason for one list that serves two reasons: due, unless only the other reason (also) requires
// that every stored object is replaced. ReasonCold stays, since nothing is stored before the first list.
func stronger(due, also Reason) Reason {
	switch {
	case due == "":
		return also
	case due != ReasonCold && also.Rewrites() && !due.Rewrites():
		return also
	}
	return due
}
