package reflector

// Reason is why a list was made.
type Reason string

// The reasons. The list of a cold start is not a relist.
const (
	// ReasonCold: nothing was stored.
	ReasonCold Reason = "Cold"
	// ReasonExpired: the server no longer has the history since the resourceVersion. It says so (410), or refuses every
	// watch from there although it has moved on.
	ReasonExpired Reason = "Expired"
	// ReasonAhead: the stored resourceVersion is above the server's: another cluster, or one restored from a backup.
	ReasonAhead Reason = "AheadOfServer"
	// ReasonRewound: the server has another state of an object that we hold, at a resourceVersion that we have passed, or
	// an event cannot follow what we hold: the server was restored from a backup and has overtaken us.
	ReasonRewound Reason = "Rewound"
	// ReasonCluster: the cluster's id has changed, or was unknown when the contents were listed and is known now.
	ReasonCluster Reason = "ClusterChanged"
	// ReasonCodec: the bodies were written by another codec.
	ReasonCodec Reason = "CodecChanged"
	// ReasonSchema: the bodies were written by other Go types, which may have lost fields that the present ones have.
	ReasonSchema Reason = "SchemaChanged"
	// ReasonTransform: the bodies were written with another version of the transform.
	ReasonTransform Reason = "TransformChanged"
	// ReasonOpenAPI: the server's schema of the group-version has changed, or was unknown when the contents were listed
	// and is known now.
	ReasonOpenAPI Reason = "OpenAPIChanged"
	// ReasonEncoding: the server is newer than the Go types, and bodies are stored in protobuf, which may hide its fields.
	ReasonEncoding Reason = "EncodingChanged"
	// ReasonStore: the stored contents cannot be resumed, because they are not the state at one resourceVersion
	// (interrupted relist, an object that could not be stored).
	ReasonStore Reason = "StoreIncomplete"
	// ReasonDamaged: the store has lost objects: its file was damaged, or a write failed with an unknown outcome, and it
	// was rebuilt.
	ReasonDamaged Reason = "StoreDamaged"
	// ReasonUnreadable: stored bodies cannot be decoded although they are not damaged.
	ReasonUnreadable Reason = "Unreadable"
	// ReasonBadEvent: the object of a watch's event cannot be decoded, and the watch does not get past it.
	ReasonBadEvent Reason = "BadEvent"
	// ReasonLeftOut: objects that could not be stored when they came have to be delivered again. There are too many to
	// look them up one by one, the server refuses look-ups, or it sends no bookmarks that show that the watch has caught
	// up.
	ReasonLeftOut Reason = "LeftOut"
	// ReasonAudit: an audit found that the contents differ, or may differ, from the server's, although the stream was not
	// interrupted.
	ReasonAudit Reason = "AuditMismatch"
	// ReasonListOnly: the server lists the resource and refuses to watch it (403, 404, 405). It is listed every 30 to 60
	// seconds until it can be watched.
	ReasonListOnly Reason = "ListOnly"
	// ReasonNotResumable: there is no resourceVersion to watch from. Either the server gives none (some aggregated APIs),
	// so each reconnect lists; or none that can be compared, so each start lists; or the last list had strays.
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

// Rewrites reports whether a relist for this reason needs every body, so that it is not made by metadata, and brings
// unchanged records into today's form. Equal UID and resourceVersion do not imply equal bodies: two histories of one
// cluster give the same resourceVersion to different states, and another schema shows the same state differently.
func (r Reason) Rewrites() bool {
	switch r {
	case ReasonAhead, ReasonRewound, ReasonAudit, ReasonDamaged,
		ReasonCluster, ReasonCodec, ReasonSchema, ReasonTransform, ReasonOpenAPI, ReasonEncoding, ReasonUnreadable,
		ReasonLeftOut:
		return true
	}
	return false
}

// Lasts reports whether the reason has to be persisted until the list is stored: the next process may not be able to
// find it out again, since the server may have changed meanwhile.
func (r Reason) Lasts() bool { return r == ReasonAhead || r == ReasonRewound || r == ReasonAudit }
