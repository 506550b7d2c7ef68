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

// Status describes a store's file. It is also what `larder status -o json` prints.
type Status struct {
	// Store is the file's name.
	Store string `json:"store"`
	// Bytes is the file's size, FreeBytes the part of it that will be used again.
	Bytes     int64 `json:"bytes"`
	FreeBytes int64 `json:"freeBytes"`
	// WrittenBytes is what Sync has written to the file, in whole pages; 0 if none runs.
	WrittenBytes int64 `json:"writtenBytes,omitempty"`
	// Error is why changes cannot be written to the file; empty while they can.
	Error string `json:"error,omitempty"`
	// Sync is the process that holds the file; nil if none does.
	Sync *Sync `json:"sync,omitempty"`
	// ServeMemory is the memory for answers of a Sync that serves objects; nil if it does not.
	ServeMemory *ServeMemory `json:"serveMemory,omitempty"`
	// Snapshot is what the file says about itself if it is a snapshot; nil if it is a store.
	Snapshot    *SnapshotInfo `json:"snapshot,omitempty"`
	Collections []Collection  `json:"collections"`
}

// Sync describes a running sync.
type Sync struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Listen is where it serves health and metrics; empty if it does not.
	Listen string `json:"listen,omitempty"`
	// Metrics is the URL of the metrics, if they are not at Listen.
	Metrics string `json:"metrics,omitempty"`
}

// ServeMemory is the budget for the answers of a running sync.
type ServeMemory struct {
	Bytes     int64 `json:"bytes"`
	UsedBytes int64 `json:"usedBytes"`
	// Refused is how many requests were refused since the budget was spent.
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
	// RequestedAs are the names by which larder sync was asked for the resource. Elsewhere are those of its names that
	// mean another resource of the API server.
	RequestedAs []string `json:"requestedAs,omitempty"`
	Elsewhere   []string `json:"elsewhere,omitempty"`
	// Retired: the API server serves the resource in other versions only.
	Retired bool `json:"retired,omitempty"`
	// Columns are the additionalPrinterColumns of a custom resource.
	Columns        []entry.Column `json:"columns,omitempty"`
	Namespace      string         `json:"namespace,omitempty"`
	LabelSelector  string         `json:"labelSelector,omitempty"`
	FieldSelector  string         `json:"fieldSelector,omitempty"`
	ShardSelector  string         `json:"shardSelector,omitempty"`
	Representation string         `json:"representation"`
	// Sealed: what is stored of the objects is sealed, and needs a key. PlainText: what was stored before there was a key
	// is legible in the file.
	Sealed    bool `json:"sealed,omitempty"`
	PlainText bool `json:"plainText,omitempty"`
	// Persistent is false if a running sync keeps the objects in memory only.
	Persistent      bool   `json:"persistent"`
	Objects         int    `json:"objects"`
	ResourceVersion string `json:"resourceVersion"`
	// Complete: a whole list has been stored. An empty complete collection was
	// listed, and there was nothing.
	Complete bool `json:"complete"`
	// MustRelist is why the contents can be read but not resumed; empty if they can.
	MustRelist string `json:"mustRelist,omitempty"`
	// LeftOut are the objects that were refused, as "key@resourceVersion: what refused it"; LeftOutMore: there may be
	// others.
	LeftOut     []string `json:"leftOut,omitempty"`
	LeftOutMore bool     `json:"leftOutMore,omitempty"`
	// Transform is the version of the transform that has changed the objects; empty if none has.
	Transform string `json:"transform,omitempty"`
	// Notes are the known defects of the contents: see entry.Info.Notes. Their age is LastContact.
	Notes []entry.Note `json:"notes,omitempty"`
	// LastContact is when the server last confirmed the objects as its present state, or moved them on; zero if never.
	LastContact time.Time `json:"lastContact,omitzero"`
	// Handlers are the durable handlers that keep a place in it.
	Handlers []Handler `json:"handlers,omitempty"`
	// Changes are what is kept of its changes for larder watch --since; nil if none are.
	Changes *Changes `json:"changes,omitempty"`
	// Live is what a running sync knows about it; nil if none mirrors it.
	Live *Live `json:"live,omitempty"`
	// TakenAt is when the snapshot was taken that this is of; zero for a store.
	TakenAt time.Time `json:"takenAt,omitzero"`
	// Filtered and Redacted say, one thing an entry, what of the collection the snapshot leaves out.
	Filtered []string `json:"filtered,omitempty"`
	Redacted []string `json:"redacted,omitempty"`
	// Namespaces are those that the snapshot was told to take objects of; none is all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Guessed says that Namespaced is a guess: the store tells nothing of it, and has no object that shows it.
	Guessed bool `json:"-"`
}

// Handler describes a durable handler by its place in the file.
type Handler struct {
	Name string `json:"name"`
	// Behind is how many changes at most it has not acknowledged.
	Behind uint64 `json:"behind"`
	// Failing is how many keys of acknowledged changes it has yet to acknowledge.
	Failing int `json:"failing"`
	// Replaying: it is being told of every object.
	Replaying bool `json:"replaying,omitempty"`
}

// Changes describes what is kept of the changes of a collection.
type Changes struct {
	// KeptFor is how long, by the time in which the store is open, as time.Duration writes it.
	KeptFor string `json:"keptFor"`
	// Oldest and Last are the lowest and the highest number that a watch can go on after.
	Oldest uint64 `json:"oldest"`
	Last   uint64 `json:"last"`
	// Feed tells these numbers from those of other collections and stores: see store.Store.ChangelogID.
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
	// Encoding is what the server is asked for: "protobuf", or "JSON" and perhaps why it is not protobuf.
	Encoding string `json:"encoding"`
	// Source is none, disk or live: see informer.Source.
	Source string `json:"source"`
	// Since is when it began to be so, in the running sync.
	Since  time.Time `json:"since,omitzero"`
	Synced bool      `json:"synced"`
	// ListOnly: the server lists the resource and refuses to watch it; the objects are those of the last list. See
	// reflector.Status.
	ListOnly bool `json:"listOnly,omitempty"`
	// NoNamespace: the API server does not have the namespace of which the collection is.
	NoNamespace bool `json:"noNamespace,omitempty"`
	// State is the reflector's.
	State string `json:"state"`
	// Seed says what the first list was spared by, or why not; "" if there is nothing to say.
	Seed    string `json:"seed,omitempty"`
	Resumes int    `json:"resumes"`
	// Relists counts lists by reason, that of a cold start apart; Lists counts all.
	Relists map[string]int `json:"relists,omitempty"`
	Lists   int            `json:"lists"`
	// Pages are the requests that the lists took.
	Pages   int `json:"pages"`
	Watches int `json:"watches"`
	// BytesReceived is what the server has sent about this resource in this run: the bodies of its answers, compressed as
	// they came.
	BytesReceived int64 `json:"bytesReceived"`
	// Pending events have been received but not stored; Skipped objects could not be.
	Pending int `json:"pending"`
	Skipped int `json:"skipped"`
	// Rewriting is why the objects are being, or are to be, listed to be stored anew; empty if they need not be.
	Rewriting string `json:"rewriting,omitempty"`
	// Unguarded are the changes of the server that would not be noticed, and why.
	Unguarded []string `json:"unguarded,omitempty"`
	// Error is why the connection or the store is degraded; empty while all is well.
	Error string `json:"error,omitempty"`
	// Uncommitted: commits fail, and the collection has changed since the last one. Commands read the file, which is
	// behind the sync; Collection.LastContact is that of the file.
	Uncommitted bool `json:"uncommitted,omitempty"`
	// Forbidden is set while the server answers 403 and the collection is not live: commands that show which of the verbs
	// that a sync needs the server does not allow.
	Forbidden string `json:"forbidden,omitempty"`
	// Optional is true if --all or a category has brought the resource: neither readiness nor larder wait depends on it
	// while it is forbidden.
	Optional bool `json:"optional,omitempty"`
	// Trouble is Error without what differs between resources that have the same trouble. Empty is Error.
	Trouble string `json:"trouble,omitempty"`
	// IncidentTotals counts by cause how often objects were not what the server has: see informer.Status.Incidents.
	IncidentTotals map[string]int `json:"incidentTotals,omitempty"`
}

// RelistCount is the sum of l.Relists.
func (l Live) RelistCount() int {
	n := 0
	for _, c := range l.Relists {
		n += c
	}
	return n
}

// NewCollection describes a stored collection.
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

// Sort puts collections in the order in which people look for them: by resource, the newest version first, then by
// scope.
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

// SetResource sets what people call the resource.
func (c *Collection) SetResource(r entry.ResourceInfo) {
	c.Kind, c.Singular, c.ShortNames, c.Namespaced = r.Kind, r.Singular, r.ShortNames, r.Namespaced
	c.Categories, c.Columns, c.RequestedAs = r.Categories, r.Columns, r.RequestedAs
}

// ResourceInfo is the reverse of SetResource.
func (c Collection) ResourceInfo() entry.ResourceInfo {
	return entry.ResourceInfo{
		Kind: c.Kind, Singular: c.Singular, ShortNames: c.ShortNames, Namespaced: c.Namespaced, Categories: c.Categories,
		Columns: c.Columns, RequestedAs: c.RequestedAs,
	}
}

// Named is the resource of the collection.
func (c Collection) Named() Resource {
	return Resource{GroupVersionResource: c.GVR(), ResourceInfo: c.ResourceInfo(), Elsewhere: c.Elsewhere,
		Retired: c.Retired}
}

// Identity is what was listed.
func (c Collection) Identity() entry.Identity {
	return entry.Identity{
		GroupVersionResource: c.GVR(), Namespace: c.Namespace, LabelSelector: c.LabelSelector,
		FieldSelector: c.FieldSelector, ShardSelector: c.ShardSelector,
		Representation: entry.Representation(c.Representation),
	}
}

// GVR is the resource.
func (c Collection) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: c.Group, Version: c.Version, Resource: c.Resource}
}
