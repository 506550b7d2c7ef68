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

// Reason is why the reflector listed the resource.
type Reason string

// These are the reasons for lists. The list for ReasonCold is not a relist.
const (
	// ReasonCold: nothing was stored.
	ReasonCold Reason = "Cold"
	// ReasonExpired: the server has lost the history since the stored resourceVersion. It answers 410, or refuses every
	// watch from that resourceVersion although its own has changed.
	ReasonExpired Reason = "Expired"
	// ReasonAhead: the stored resourceVersion is above the server's. It is another cluster, or a cluster that was
	// restored from a backup.
	ReasonAhead Reason = "AheadOfServer"
	// ReasonRewound: the server was restored from a backup, and its resourceVersion is above the stored one. It has
	// another state of a stored object at a resourceVersion that was already delivered, or it sent an event that cannot
	// follow the stored objects.
	ReasonRewound Reason = "Rewound"
	// ReasonCluster: the cluster's id has changed, or was unknown when the contents were listed and is known now.
	ReasonCluster Reason = "ClusterChanged"
	// ReasonCodec: the stored objects were encoded by another codec.
	ReasonCodec Reason = "CodecChanged"
	// ReasonSchema: the stored objects were decoded with other Go types, which may lack present fields.
	ReasonSchema Reason = "SchemaChanged"
	// ReasonTransform: the stored objects were changed by another version of the transform.
	ReasonTransform Reason = "TransformChanged"
	// ReasonOpenAPI: the server's schema of the group-version has changed, or was unknown when the contents were listed
	// and is known now.
	ReasonOpenAPI Reason = "OpenAPIChanged"
	// ReasonEncoding: the server is newer than the Go types, and stored protobuf may lack its new fields.
	ReasonEncoding Reason = "EncodingChanged"
	// ReasonStore: the watch cannot resume from the stored contents, because they are not the state at one
	// resourceVersion. A relist was interrupted, or an object could not be stored.
	ReasonStore Reason = "StoreIncomplete"
	// ReasonDamaged: the store was rebuilt without some objects, because its file was damaged or an outcome was
	// unknown.
	ReasonDamaged Reason = "StoreDamaged"
	// ReasonUnreadable: stored objects cannot be decoded, although their bytes are not damaged.
	ReasonUnreadable Reason = "Unreadable"
	// ReasonBadEvent: the object of an event cannot be decoded, and every watch from the same resourceVersion meets it.
	ReasonBadEvent Reason = "BadEvent"
	// ReasonLeftOut: objects that could not be stored have to be delivered again, and the reflector cannot request
	// single objects. There are too many objects, the server refuses requests for single objects, or it sends no
	// bookmarks that show that the watch has caught up.
	ReasonLeftOut Reason = "LeftOut"
	// ReasonAudit: an audit found that the contents differ, or may differ, from the server's state.
	ReasonAudit Reason = "AuditMismatch"
	// ReasonListOnly: the server lists the resource and refuses to watch it (403, 404, 405). The resource is listed
	// every 30 to 60 seconds until the server permits a watch.
	ReasonListOnly Reason = "ListOnly"
	// ReasonNotResumable: there is no resourceVersion to watch from. If the server gives none (some aggregated APIs),
	// each reconnect lists. If the server's resourceVersions cannot be compared, each start lists. Or the last list had
	// objects of an unexpected type or scope.
	ReasonNotResumable Reason = "NotResumable"
)

// RelistReasons returns every reason but ReasonCold.
func RelistReasons() []Reason {
	return []Reason{
		ReasonExpired, ReasonAhead, ReasonRewound, ReasonCluster, ReasonCodec, ReasonSchema, ReasonTransform, ReasonOpenAPI,
		ReasonEncoding, ReasonStore, ReasonDamaged, ReasonUnreadable, ReasonBadEvent, ReasonLeftOut, ReasonAudit,
		ReasonListOnly, ReasonNotResumable,
	}
}

// Rewrites reports whether a list for this reason must replace every stored object. Such a list requests whole objects,
// and encodes unchanged objects again. Equal UID and resourceVersion do not imply equal objects: before and after a
// restore the server may give the same resourceVersion to different states, and another schema shows the same state
// differently.
func (r Reason) Rewrites() bool {
	switch r {
	case ReasonAhead, ReasonRewound, ReasonAudit, ReasonDamaged,
		ReasonCluster, ReasonCodec, ReasonSchema, ReasonTransform, ReasonOpenAPI, ReasonEncoding, ReasonUnreadable,
		ReasonLeftOut:
		return true
	}
	return false
}

// Lasts reports whether the reason must be stored until the list is stored. If the process ends before, the next
// process may not be able to detect the reason, since the server may have changed meanwhile.
func (r Reason) Lasts() bool { return r == ReasonAhead || r == ReasonRewound || r == ReasonAudit }
