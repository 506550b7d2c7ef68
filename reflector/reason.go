package reflector

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
