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

// Status describes a store or a snapshot. It is also the output of `larder status -o json`.
type Status struct {
	Store string `json:"store"`
	// Bytes is the size of the file, and FreeBytes the size of the file's free pages.
	Bytes     int64 `json:"bytes"`
	FreeBytes int64 `json:"freeBytes"`
	// WrittenBytes is how many bytes the running larder sync has written to the file, in whole pages; 0 without a sync.
	WrittenBytes int64 `json:"writtenBytes,omitempty"`
	// Error is why changes cannot be written to the store's file; empty if they can be written.
	Error string `json:"error,omitempty"`
	// Sync is the process that has locked the store's file, if any.
	Sync *Sync `json:"sync,omitempty"`
	// ServeMemory is nil unless a larder sync serves objects over the Kubernetes API.
	ServeMemory *ServeMemory  `json:"serveMemory,omitempty"`
	Snapshot    *SnapshotInfo `json:"snapshot,omitempty"`
	Collections []Collection  `json:"collections"`
}

// Sync describes a running process of larder sync.
type Sync struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Listen is the address at which the larder sync serves its health and metrics; empty without that server.
	Listen string `json:"listen,omitempty"`
	// Metrics is the URL of the metrics, if it differs from Listen.
	Metrics string `json:"metrics,omitempty"`
}

// ServeMemory is the memory budget of a running larder sync for the responses of its Kubernetes API.
type ServeMemory struct {
	Bytes     int64 `json:"bytes"`
	UsedBytes int64 `json:"usedBytes"`
	// Refused is the number of requests that were rejected for lack of memory.
	Refused int64 `json:"refused"`
}

// Collection describes one collection of a store or snapshot.
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
	// RequestedAs are the names by which the user has selected the resource for larder sync. Elsewhere are the names of
	// the resource that mean another resource of the API server.
	RequestedAs []string `json:"requestedAs,omitempty"`
	Elsewhere   []string `json:"elsewhere,omitempty"`
	// Retired says that the API server serves the resource only in other versions.
	Retired bool `json:"retired,omitempty"`
	// Columns are the additionalPrinterColumns of a custom resource's definition.
	Columns        []entry.Column `json:"columns,omitempty"`
	Namespace      string         `json:"namespace,omitempty"`
	LabelSelector  string         `json:"labelSelector,omitempty"`
	FieldSelector  string         `json:"fieldSelector,omitempty"`
	ShardSelector  string         `json:"shardSelector,omitempty"`
	Representation string         `json:"representation"`
	// Sealed says that new objects are stored encrypted, and readable only with a key. PlainText says that the file still
	// has unencrypted objects from before the key was set.
	Sealed    bool `json:"sealed,omitempty"`
	PlainText bool `json:"plainText,omitempty"`
	// Persistent is false if a running larder sync keeps the objects in memory only, not in the file.
	Persistent      bool   `json:"persistent"`
	Objects         int    `json:"objects"`
	ResourceVersion string `json:"resourceVersion"`
	// Complete says that a whole list has been stored. A complete collection without objects was therefore empty on the
	// API server.
	Complete bool `json:"complete"`
	// MustRelist is why a watch cannot resume from the stored objects, so that they must be listed again; empty if a watch
	// can resume.
	MustRelist string `json:"mustRelist,omitempty"`
	// LeftOut lists objects that could not be stored, as "key@resourceVersion: reason". LeftOutMore says that the list may
	// be incomplete.
	LeftOut     []string `json:"leftOut,omitempty"`
	LeftOutMore bool     `json:"leftOutMore,omitempty"`
	// Transform is the version of the transform function that changed the objects before they were stored; empty without
	// one.
	Transform string `json:"transform,omitempty"`
	// Notes are the known defects of the stored objects, except their age, which LastContact shows. See entry.Info.Notes.
	Notes []entry.Note `json:"notes,omitempty"`
	// LastContact is when the API server last confirmed or changed the stored objects; zero if never.
	LastContact time.Time `json:"lastContact,omitzero"`
	Handlers    []Handler `json:"handlers,omitempty"`
	// Changes describes the changelog that larder watch --since reads; nil without a changelog.
	Changes *Changes `json:"changes,omitempty"`
	// Live describes the mirror of the collection in a running larder sync; nil if no sync mirrors the collection.
	Live *Live `json:"live,omitempty"`
	// TakenAt is when the snapshot was taken; zero for a store.
	TakenAt time.Time `json:"takenAt,omitzero"`
	// Filtered and Redacted list the objects and the fields that the snapshot omits, one kind per entry.
	Filtered []string `json:"filtered,omitempty"`
	Redacted []string `json:"redacted,omitempty"`
	// Namespaces are the namespaces to which the snapshot was limited; empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Guessed says that Namespaced is a guess: neither the stored description nor an object's key proves it.
	Guessed bool `json:"-"`
}

// Handler describes a durable event handler by its cursor in the file: the last change that it has acknowledged.
type Handler struct {
	Name   string `json:"name"`
	Behind uint64 `json:"behind"`
	// Failing is the number of keys whose change the handler has not acknowledged, although it has acknowledged later
	// changes of other keys.
	Failing int `json:"failing"`
	// Replaying says that the handler receives all objects again.
	Replaying bool `json:"replaying,omitempty"`
}

// Changes describes the changelog of a collection, which records changes for readers that resume.
type Changes struct {
	// KeptFor is how long changes are kept, as the text of a time.Duration. Only the time during which the store is open
	// counts.
	KeptFor string `json:"keptFor"`
	// Oldest and Last are the lowest and the highest changelog offset from which a watch can resume.
	Oldest uint64 `json:"oldest"`
	Last   uint64 `json:"last"`
	// Feed is the id of the changelog (store.Store.ChangelogID). Oldest and Last are offsets of the changelog with this
	// id.
	Feed string `json:"feed,omitempty"`
}

func changesOf(k consumer.Kept, feed string) *Changes {
	if k.For == 0 {
		return nil
	}
	return &Changes{KeptFor: k.For.String(), Oldest: k.Oldest, Last: k.Last, Feed: feed}
}

func handlersOf(infos []consumer.Info) []Handler {
	var all []Handler
	for _, h := range infos {
		all = append(all, Handler{Name: h.Name, Behind: h.Behind, Failing: len(h.Failing), Replaying: h.Replaying})
	}
	return all
}

// Live describes how a running larder sync mirrors a collection.
type Live struct {
	// Encoding is the encoding that the larder sync requests from the API server: "protobuf", or "JSON", possibly with the
	// reason.
	Encoding string `json:"encoding"`
	// Source says where the collection's present objects come from: none, disk or live; see informer.Source.
	Source string `json:"source"`
	// Since is when Source last changed while the larder sync was running.
	Since  time.Time `json:"since,omitzero"`
	Synced bool      `json:"synced"`
	// ListOnly says that the API server allows the larder sync to list the resource, but not to watch it. The objects are
	// those of the last list. See reflector.Status.
	ListOnly    bool `json:"listOnly,omitempty"`
	NoNamespace bool `json:"noNamespace,omitempty"`
	// State is the state of the reflector that lists and watches the resource.
	State string `json:"state"`
	// Seed says which seed, such as a snapshot, provided the first objects instead of a list, or why none did. Seed may be
	// empty.
	Seed    string `json:"seed,omitempty"`
	Resumes int    `json:"resumes"`
	// Relists counts relists by reason. The first list of a collection without stored objects does not count. Lists
	// counts all lists.
	Relists map[string]int `json:"relists,omitempty"`
	Lists   int            `json:"lists"`
	// Pages is the number of requests of all lists together.
	Pages   int `json:"pages"`
	Watches int `json:"watches"`
	// BytesReceived is the size of the API server's responses for this resource since the larder sync was started,
	// compressed as received.
	BytesReceived int64 `json:"bytesReceived"`
	Pending       int   `json:"pending"`
	Skipped       int   `json:"skipped"`
	// Rewriting is why the larder sync must list the objects again to store them in another form; empty without such a
	// need.
	Rewriting string `json:"rewriting,omitempty"`
	// Unguarded lists kinds of changes on the API server that the larder sync would not notice, with the reasons.
	Unguarded []string `json:"unguarded,omitempty"`
	// Error is why the connection to the API server or the store is degraded; empty without a fault.
	Error string `json:"error,omitempty"`
	// Uncommitted says that the collection has changed since the last commit, and that commits fail. Commands read the
	// file, whose objects and LastContact are then older than the larder sync's.
	Uncommitted bool `json:"uncommitted,omitempty"`
	// Forbidden has commands that show which of the required verbs the API server denies. It is set while the API server
	// responds with 403 and the collection is not live.
	Forbidden string `json:"forbidden,omitempty"`
	// Optional says that the resource was selected by --all or by a category, not by its name. While the API server
	// forbids it, readiness and larder wait ignore it.
	Optional bool `json:"optional,omitempty"`
	// Trouble is the part of Error that is common to all resources with the same fault, for grouping them. If Trouble is
	// empty, use Error.
	Trouble string `json:"trouble,omitempty"`
	// IncidentTotals counts, by cause, how often stored objects differed from those on the API server: see
	// informer.Status.Incidents.
	IncidentTotals map[string]int `json:"incidentTotals,omitempty"`
}

// RelistCount returns the total number of relists, for whatever reason.
func (l Live) RelistCount() int {
	n := 0
	for _, c := range l.Relists {
		n += c
	}
	return n
}

// NewCollection converts a collection's Info to a description for commands.
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

// Sort sorts collections for display: by resource, with the newest version first, and then by scope.
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

// SetResource sets the fields that describe the collection's resource: its kind, names, columns and scope.
func (c *Collection) SetResource(r entry.ResourceInfo) {
	c.Kind, c.Singular, c.ShortNames, c.Namespaced = r.Kind, r.Singular, r.ShortNames, r.Namespaced
	c.Categories, c.Columns, c.RequestedAs = r.Categories, r.Columns, r.RequestedAs
}

// ResourceInfo returns the description of the collection's resource.
func (c Collection) ResourceInfo() entry.ResourceInfo {
	return entry.ResourceInfo{
		Kind: c.Kind, Singular: c.Singular, ShortNames: c.ShortNames, Namespaced: c.Namespaced, Categories: c.Categories,
		Columns: c.Columns, RequestedAs: c.RequestedAs,
	}
}

// Named returns the collection's resource with its kind and its names, also those in Elsewhere.
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
