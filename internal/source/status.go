package source

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/consumer"
)

// Status describes a store's file. It is also the output of `larder status -o json`.
type Status struct {
	// Store is the file's name.
	Store string `json:"store"`
	// Bytes is the file's size, and FreeBytes the size of its free pages.
	Bytes     int64 `json:"bytes"`
	FreeBytes int64 `json:"freeBytes"`
	// WrittenBytes is what Sync has written to the file, in whole pages; 0 without a running sync.
	WrittenBytes int64 `json:"writtenBytes,omitempty"`
	// Error is why changes cannot be written to the file; empty if they can.
	Error string `json:"error,omitempty"`
	// Sync is the process that holds the file; nil if there is none.
	Sync *Sync `json:"sync,omitempty"`
	// ServeMemory is the memory budget of a Sync that serves objects; nil if it does not.
	ServeMemory *ServeMemory `json:"serveMemory,omitempty"`
	// Snapshot is a snapshot's description of itself; nil for a store.
	Snapshot    *SnapshotInfo `json:"snapshot,omitempty"`
	Collections []Collection  `json:"collections"`
}

// Sync describes a running sync.
type Sync struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Listen is the address of health and metrics; empty if they are not served.
	Listen string `json:"listen,omitempty"`
	// Metrics is the URL of the metrics, if they are not at Listen.
	Metrics string `json:"metrics,omitempty"`
}

// ServeMemory is the memory budget of a running sync for responses.
type ServeMemory struct {
	Bytes     int64 `json:"bytes"`
	UsedBytes int64 `json:"usedBytes"`
	// Refused is the number of requests rejected for lack of memory.
	Refused int64 `json:"refused"`
}

// Collection describes one collection.
type Collection struct {
	ID         string   `json:"id"`
	Group      string   `json:"group"`
	Version    string   `json:"version"`
	Resource   string   `json:"resource"`
	Kind       string   `json:"kind"`
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Namespaced bool     `json:"namespaced"`
	Categories []string `json:"categories,omitempty"`
	// RequestedAs are the names by which larder sync was asked for the resource. Elsewhere are the names that mean
	// another resource of the API server.
	RequestedAs []string `json:"requestedAs,omitempty"`
	Elsewhere   []string `json:"elsewhere,omitempty"`
	// Retired: the API server serves the resource only in other versions.
	Retired bool `json:"retired,omitempty"`
	// Columns are the additionalPrinterColumns of a custom resource.
	Columns        []entry.Column `json:"columns,omitempty"`
	Namespace      string         `json:"namespace,omitempty"`
	LabelSelector  string         `json:"labelSelector,omitempty"`
	FieldSelector  string         `json:"fieldSelector,omitempty"`
	ShardSelector  string         `json:"shardSelector,omitempty"`
	Representation string         `json:"representation"`
	// Sealed: the objects are stored sealed, and need a key. PlainText: objects that were stored before there was a key
	// are still readable in the file.
	Sealed    bool `json:"sealed,omitempty"`
	PlainText bool `json:"plainText,omitempty"`
	// Persistent is false if a running sync keeps the objects in memory only.
	Persistent      bool   `json:"persistent"`
	Objects         int    `json:"objects"`
	ResourceVersion string `json:"resourceVersion"`
	// Complete: a whole list has been stored. An empty complete collection had no objects when it was listed.
	Complete bool `json:"complete"`
	// MustRelist is why a watch cannot resume from the contents; empty if it can.
	MustRelist string `json:"mustRelist,omitempty"`
	// LeftOut are the rejected objects, as "key@resourceVersion: reason". LeftOutMore: there may be more.
	LeftOut     []string `json:"leftOut,omitempty"`
	LeftOutMore bool     `json:"leftOutMore,omitempty"`
	// Transform is the version of the transform that changed the objects; empty if there was none.
	Transform string `json:"transform,omitempty"`
	// Notes are the known defects of the contents, except for their age; see entry.Info.Notes and LastContact.
	Notes []entry.Note `json:"notes,omitempty"`
	// LastContact is when the server last confirmed or changed the contents; zero if never.
	LastContact time.Time `json:"lastContact,omitzero"`
	// Handlers are the durable handlers with a cursor in the collection.
	Handlers []Handler `json:"handlers,omitempty"`
	// Changes describes the changelog for larder watch --since; nil if there is none.
	Changes *Changes `json:"changes,omitempty"`
	// Live is the state of the running mirror; nil if no sync mirrors the collection.
	Live *Live `json:"live,omitempty"`
	// TakenAt is when the snapshot was taken; zero for a store.
	TakenAt time.Time `json:"takenAt,omitzero"`
	// Filtered and Redacted list the parts of the collection that the snapshot omits, one per entry.
	Filtered []string `json:"filtered,omitempty"`
	Redacted []string `json:"redacted,omitempty"`
	// Namespaces are the namespaces to which the snapshot was limited; empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Guessed says that Namespaced is a guess: neither the description nor an object proves it.
	Guessed bool `json:"-"`
}

// Handler describes a durable handler by its cursor in the file.
type Handler struct {
	Name string `json:"name"`
	// Behind is the maximum number of changes that it has not acknowledged.
	Behind uint64 `json:"behind"`
	// Failing is the number of keys with changes that are not acknowledged, although later changes of other keys are.
	Failing int `json:"failing"`
	// Replaying: the handler is receiving all objects.
	Replaying bool `json:"replaying,omitempty"`
}

// Changes describes the changelog of a collection.
type Changes struct {
	// KeptFor is the retention as a time.Duration text. It counts only the time during which the store is open.
	KeptFor string `json:"keptFor"`
	// Oldest and Last are the lowest and the highest offset from which a watch can resume.
	Oldest uint64 `json:"oldest"`
	Last   uint64 `json:"last"`
	// Feed identifies the changelog to which these offsets belong: see store.Store.ChangelogID.
	Feed string `json:"feed,omitempty"`
}

func changesOf(k consumer.Kept, feed string) *Changes {
	if k.For == 0 {
		return nil
	}
	return &Changes{KeptFor: k.For.String(), Oldest: k.Oldest, Last: k.Last, Feed: feed}
}

// handlersOf returns the durable handlers of a collection.
func handlersOf(infos []consumer.Info) []Handler {
	var all []Handler
	for _, h := range infos {
		all = append(all, Handler{Name: h.Name, Behind: h.Behind, Failing: len(h.Failing), Replaying: h.Replaying})
	}
	return all
}

// Live describes a collection that a running sync mirrors.
type Live struct {
	// Encoding is the encoding requested from the server: "protobuf", or "JSON", possibly with the reason.
	Encoding string `json:"encoding"`
	// Source is none, disk or live: see informer.Source.
	Source string `json:"source"`
	// Since is when Source last changed, in the running sync.
	Since  time.Time `json:"since,omitzero"`
	Synced bool      `json:"synced"`
	// ListOnly: the server allows list, but not watch; the objects come from the last list. See reflector.Status.
	ListOnly bool `json:"listOnly,omitempty"`
	// NoNamespace: the collection's namespace does not exist on the API server.
	NoNamespace bool `json:"noNamespace,omitempty"`
	// State is the reflector's state.
	State string `json:"state"`
	// Seed says what replaced the first list, or why nothing did; may be empty.
	Seed    string `json:"seed,omitempty"`
	Resumes int    `json:"resumes"`
	// Relists counts relists by reason; it excludes the list of a cold start. Lists counts all lists.
	Relists map[string]int `json:"relists,omitempty"`
	Lists   int            `json:"lists"`
	// Pages is the number of requests of all lists.
	Pages   int `json:"pages"`
	Watches int `json:"watches"`
	// BytesReceived is the size of the server's responses for this resource since the start, compressed as received.
	BytesReceived int64 `json:"bytesReceived"`
	// Pending is the number of received events that are not stored yet. Skipped objects could not be stored.
	Pending int `json:"pending"`
	Skipped int `json:"skipped"`
	// Rewriting is why the objects must be listed again to be rewritten; empty if they need not.
	Rewriting string `json:"rewriting,omitempty"`
	// Unguarded lists changes of the server that would go unnoticed, and why.
	Unguarded []string `json:"unguarded,omitempty"`
	// Error is why the connection or the store is degraded; empty if neither is.
	Error string `json:"error,omitempty"`
	// Uncommitted: commits fail, and the collection has changed since the last commit. Commands read the file, which is
	// behind the sync; Collection.LastContact is the file's.
	Uncommitted bool `json:"uncommitted,omitempty"`
	// Forbidden is set while the server returns 403 and the collection is not live. It has commands that show which of
	// the required verbs the server denies.
	Forbidden string `json:"forbidden,omitempty"`
	// Optional is true if --all or a category selected the resource. While it is forbidden, readiness and larder wait
	// ignore it.
	Optional bool `json:"optional,omitempty"`
	// Trouble is Error without the parts that differ between resources with the same fault. If empty, use Error.
	Trouble string `json:"trouble,omitempty"`
	// IncidentTotals counts, by cause, how often objects differed from the server's state: see
	// informer.Status.Incidents.
	IncidentTotals map[string]int `json:"incidentTotals,omitempty"`
}

// RelistCount returns the sum of l.Relists.
func (l Live) RelistCount() int {
	n := 0
	for _, c := range l.Relists {
		n += c
	}
	return n
}

// NewCollection returns the description of a stored collection.
func NewCollection(info entry.Info) Collection {
	id := info.Identity
	c := Collection{
		ID: id.ID(), Group: id.Group, Version: id.Version, Resource: id.Resource,
		Namespace: id.Namespace, LabelSelector: id.LabelSelector, FieldSelector: id.FieldSelector,
		ShardSelector: id.ShardSelector, Representation: string(id.Representation),
		Persistent: true, Objects: info.Objects, ResourceVersion: info.ResourceVersion,
		Complete: info.Complete, MustRelist: info.MustRelist, LastContact: info.LastContact, Sealed: info.Sealed,
		PlainText: info.PlainText, Transform: info.Attributes.Transform, Notes: info.Notes(time.Time{}, false),
	}
	c.LeftOutMore = info.LeftOutMore
	for _, l := range info.LeftOut {
		c.LeftOut = append(c.LeftOut, fmt.Sprintf("%s@%s: %s", l.Key, l.ResourceVersion, l.Reason))
	}
	r, surely := describe(info)
	c.SetResource(r)
	c.Guessed = !surely
	return c
}

// Sort sorts collections for display: by resource, then the newest version first, then by scope.
func Sort(all []Collection) {
	slices.SortFunc(all, func(a, b Collection) int {
		return cmp.Or(
			cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group),
			-version.CompareKubeAwareVersionStrings(a.Version, b.Version),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.LabelSelector, b.LabelSelector),
			cmp.Compare(a.FieldSelector, b.FieldSelector), cmp.Compare(a.ID, b.ID),
		)
	})
}

// SetResource sets the description of the resource.
func (c *Collection) SetResource(r entry.ResourceInfo) {
	c.Kind, c.Singular, c.ShortNames, c.Namespaced = r.Kind, r.Singular, r.ShortNames, r.Namespaced
	c.Categories, c.Columns, c.RequestedAs = r.Categories, r.Columns, r.RequestedAs
}

// ResourceInfo returns the description that SetResource sets.
func (c Collection) ResourceInfo() entry.ResourceInfo {
	return entry.ResourceInfo{
		Kind: c.Kind, Singular: c.Singular, ShortNames: c.ShortNames, Namespaced: c.Namespaced, Categories: c.Categories,
		Columns: c.Columns, RequestedAs: c.RequestedAs,
	}
}

// Named returns the resource of the collection with its kind, names and columns.
func (c Collection) Named() Resource {
	return Resource{GroupVersionResource: c.GVR(), ResourceInfo: c.ResourceInfo(), Elsewhere: c.Elsewhere,
		Retired: c.Retired}
}

// Identity returns the identity of the collection.
func (c Collection) Identity() entry.Identity {
	return entry.Identity{
		GroupVersionResource: c.GVR(), Namespace: c.Namespace, LabelSelector: c.LabelSelector,
		FieldSelector: c.FieldSelector, ShardSelector: c.ShardSelector,
		Representation: entry.Representation(c.Representation),
	}
}

// GVR returns the resource of the collection.
func (c Collection) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: c.Group, Version: c.Version, Resource: c.Resource}
}
