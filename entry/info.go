package entry

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Info is the state of a collection as of one transaction.
type Info struct {
	Identity   Identity
	Attributes Attributes
	Resource   ResourceInfo
	// ResourceVersion covers every object in the collection. Empty means that no watch can resume. A resourceVersion that
	// cannot be compared (see apimachinery's CompareResourceVersion) is never stored: then ResourceVersion is empty and
	// MustRelist is MustRelistOpaque.
	ResourceVersion string
	// Complete is true once a whole list has been stored, even an empty one.
	Complete bool
	// MustRelist is the reason why readers get the contents but no watch can resume; empty if a watch can resume.
	MustRelist string
	Objects    int
	// LastContact is when the server last confirmed that the stored objects are its current state, or sent a newer state.
	LastContact time.Time
	// NextSeq is the sequence number of the next record in the collection.
	NextSeq uint64
	// Newest are a few of the stored objects with the highest resourceVersion, newest first. The rewind check compares
	// them with the server, to detect a server that was restored to an older state. Newest may be empty.
	Newest []ObjectRef
	// LeftOut names refused objects that the next start of an informer fetches: at most MaxLeftOut, in key order. Callers
	// must not modify it. LeftOutMore is true if there may be more refused objects, which only a list can deliver.
	LeftOut     []LeftOut
	LeftOutMore bool
	// Sealed is true if new records are sealed, that is, encrypted (Options.Encryption). PlainText is true if records or
	// free pages of the file still have plain text; Rekey removes it.
	Sealed, PlainText bool
}

// Clone returns the Info with a copy of Newest.
func (i Info) Clone() Info {
	i.Newest = append([]ObjectRef(nil), i.Newest...)
	return i
}

// MustRelistOpaque is the value of Info.MustRelist for servers whose resourceVersions cannot be compared. The contents
// are one state of the server, but no watch can resume, so each start of an informer lists.
const MustRelistOpaque = "the server's resourceVersions cannot be compared"

// MaxLeftOut is the maximum number of refused objects in Info.LeftOut.
const MaxLeftOut = 100

// Attributes describe everything, besides the identity, that a collection's contents depend on. They are stored with
// the objects, and compared with the current values at each connect to the server. If they differ, a relist writes
// every object anew. Until then readers get the stored objects, so a program that is offline or was upgraded finds its
// data.
type Attributes struct {
	// ClusterID identifies the cluster: the UID of the namespace kube-system, or the value that the caller sets. Empty
	// means unknown, and matches every value.
	ClusterID string `json:"clusterID,omitempty"`
	// Codec is the Codec.Name of the codec that encodes the objects, and Schema is its Codec.Fingerprint. If the server's
	// payloads are stored unchanged, Schema is codec.SentFingerprint, and the contents do not depend on Go types.
	Codec  string `json:"codec,omitempty"`
	Schema string `json:"schema,omitempty"`
	// Transform is the version of the caller's transform function.
	Transform string `json:"transform,omitempty"`
	// Wire is the encoding that the informer requests from the server, if the informer chooses it: "protobuf" or "JSON".
	// "JSON 1.39" is JSON because the server's version, 1.39, is newer than the Go types, whose protobuf would hide
	// fields. Empty means unknown.
	Wire string `json:"wire,omitempty"`
	// OpenAPI is the server's hash of the group-version's schema. Empty means unknown, and matches every value.
	OpenAPI string `json:"openAPI,omitempty"`
}

// NewerServer reports whether the informer requested JSON because the server is newer than the Go types.
func (a Attributes) NewerServer() bool { return strings.HasPrefix(a.Wire, "JSON ") }

// ResourceInfo has the names by which users refer to a resource. It is stored with a collection, so that the command
// line works without a server.
type ResourceInfo struct {
	Kind       string   `json:"kind,omitempty"`
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	// Namespaced is true for a namespaced resource. With false, a store derives it from the keys of the stored objects.
	Namespaced bool `json:"namespaced,omitempty"`
	// Categories are the categories of the resource, such as "all".
	Categories []string `json:"categories,omitempty"`
	// Columns are the additionalPrinterColumns of a custom resource. Empty for other resources.
	Columns []Column `json:"columns,omitempty"`
	// SelectableFields are the fields that select custom resources, such as spec.color. Empty for other resources.
	SelectableFields []string `json:"selectableFields,omitempty"`
	// Deprecated is the server's warning for a deprecated version of a custom resource. Empty for other resources.
	Deprecated string `json:"deprecated,omitempty"`
	// ListKind is the listKind of a custom resource's definition. Empty if it is Kind with "List" appended.
	ListKind string `json:"listKind,omitempty"`
	// Definition is the UID and generation of the CustomResourceDefinition. Empty for other resources.
	Definition string `json:"definition,omitempty"`
	// RequestedAs are the names, in lower case, under which larder sync requested the resource. If several resources of a
	// server share a name, these names mean this resource until the next request to the server.
	RequestedAs []string `json:"requestedAs,omitempty"`
}

// Column is one of the additionalPrinterColumns of a custom resource, the CustomResourceColumnDefinition of Kubernetes.
type Column struct {
	Name string `msgpack:"name" json:"name"`
	// Type is integer, number, string, boolean or date. Format refines Type, for example int32 or password.
	Type   string `msgpack:"type" json:"type"`
	Format string `msgpack:"format,omitempty" json:"format,omitempty"`
	// Priority is 0 for a column that is always printed. Columns with a higher priority are printed only with -o wide.
	Priority int32 `msgpack:"priority,omitempty" json:"priority,omitempty"`
	// JSONPath is the path of the column's value in the object, for example .spec.size.
	JSONPath string `msgpack:"jsonPath" json:"jsonPath"`
}

// With returns newer, completed from i. Nil means unknown; empty slices mean none. A nil RequestedAs is taken from i.
// If both have the same Kind, nil Categories, Columns and SelectableFields are taken from i too. Deprecated, ListKind
// and Definition are taken with the Columns, because they are from one definition.
//
// With returns i if newer adds nothing: no ShortNames, Namespaced, Categories, Columns, SelectableFields, Deprecated or
// RequestedAs, and either the same Kind, or neither Kind nor Singular.
func (i ResourceInfo) With(newer ResourceInfo) ResourceInfo {
	less := newer.ShortNames == nil && !newer.Namespaced && newer.Categories == nil && newer.Columns == nil &&
		newer.SelectableFields == nil && newer.Deprecated == "" && newer.RequestedAs == nil
	if less && (newer.Kind == i.Kind || newer.Kind == "" && newer.Singular == "") {
		return i
	}
	if newer.Kind == i.Kind && newer.Categories == nil {
		newer.Categories = i.Categories
	}
	if newer.Kind == i.Kind && newer.Columns == nil {
		newer.Columns, newer.ListKind, newer.Definition = i.Columns, i.ListKind, i.Definition
		if newer.Deprecated == "" {
			newer.Deprecated = i.Deprecated
		}
	}
	if newer.Kind == i.Kind && newer.SelectableFields == nil {
		newer.SelectableFields = i.SelectableFields
	}
	if newer.RequestedAs == nil {
		newer.RequestedAs = i.RequestedAs
	}
	if len(newer.Categories) == 0 { // A store decodes an empty slice as nil.
		newer.Categories = nil
	}
	if len(newer.Columns) == 0 {
		newer.Columns = nil
	}
	if len(newer.SelectableFields) == 0 {
		newer.SelectableFields = nil
	}
	return newer
}

// NoteKind is the subject of a Note. The values are part of the JSON of larder status, and labels of metrics.
type NoteKind string

// Kinds of notes, in the order in which Info.Notes returns them.
const (
	// NoteMustRelist means that a relist is due, and that the contents may be a mixture of two states.
	NoteMustRelist NoteKind = "mustRelist"
	// NoteLeftOut means that objects were refused; they are missing, or older than the server's.
	NoteLeftOut NoteKind = "leftOut"
	// NoteTransform means that a transform function changed the objects before they were stored.
	NoteTransform NoteKind = "transform"
	// NoteListOnly means that the server lists the resource and refuses to watch it.
	NoteListOnly NoteKind = "listOnly"
	// NoteAge means that the last contact with the server was more than OldAfter ago.
	NoteAge NoteKind = "age"
)

// NoteKinds are all kinds of notes.
var NoteKinds = []NoteKind{NoteMustRelist, NoteLeftOut, NoteTransform, NoteListOnly, NoteAge}

// OldAfter is the age of the last contact above which Info.Notes returns a NoteAge.
const OldAfter = time.Minute

// Note is a known defect of a collection's contents. Everything that shows or returns the contents shows the notes.
// Text names neither the resource nor objects, because not every reader may know their names. Brief is a shorter Text,
// for a table with the age in another column; NoteAge has none.
type Note struct {
	Kind  NoteKind `json:"kind"`
	Text  string   `json:"text"`
	Brief string   `json:"brief,omitempty"`
}

// Notes returns the known defects of the collection at the time now. listOnly says that the server lists the resource
// but refuses to watch it (reflector.Status.ListOnly); only the process that mirrors the collection knows that. A text
// changes only with its defect, so that clients can show it once.
func (i Info) Notes(now time.Time, listOnly bool) []Note {
	var all []Note
	if why := i.MustRelist; why != "" && why != MustRelistOpaque {
		all = append(all, Note{NoteMustRelist,
			fmt.Sprintf("to be listed again (%s): objects may be missing, or older than others", why),
			fmt.Sprintf("must relist (%s)", why)})
	}
	if n := len(i.LeftOut); n > 0 || i.LeftOutMore {
		many := strconv.Itoa(n)
		if i.LeftOutMore {
			many = "more than " + many
		}
		things := "objects"
		if many == "1" {
			things = "object"
		}
		all = append(all, Note{NoteLeftOut,
			"objects that could not be stored are missing, or older than the server's: " + many + i.whyLeftOut(),
			fmt.Sprintf("%s %s left out", many, things)})
	}
	if version := i.Attributes.Transform; version != "" {
		all = append(all, Note{NoteTransform,
			fmt.Sprintf("not as the API server sent them: a transform (version %q) changed the objects", version),
			"changed by a transform"})
	}
	if listOnly {
		all = append(all, Note{NoteListOnly, "the API server refuses to watch the objects: they are listed about once a " +
			"minute, and changes between two lists are not seen", "cannot be watched"})
	}
	if !i.LastContact.IsZero() && now.Sub(i.LastContact) > OldAfter {
		all = append(all, Note{NoteAge, fmt.Sprintf("the API server was last heard of at %s; this is what it had then",
			i.LastContact.UTC().Format(time.RFC3339)), ""})
	}
	return all
}

func (i Info) whyLeftOut() string {
	var all []string
	for _, l := range i.LeftOut {
		if why := l.Reason.why(); why != "" && !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return " (" + strings.Join(all, "; ") + ")"
}

// why returns the reason in words for users, or "" for a reason without any.
func (r LeftOutReason) why() string {
	switch r {
	case LeftOutTransform:
		return "a transform failed"
	case LeftOutIndex:
		return "an index function failed"
	case LeftOutCodec:
		return "they could not be encoded or decoded"
	case LeftOutKey:
		return fmt.Sprintf("their names are longer than the %d bytes that can be stored", MaxKey)
	}
	return ""
}

// Prefer compares the Infos of two collections of one resource, for slices.MinFunc and slices.SortFunc. The collection
// that readers should use sorts first. The criteria are, in this order: a complete list; whole objects, not only
// metadata; no need for a relist; a later last contact; a lower Identity.ID.
func Prefer(a, b Info) int {
	return cmp.Or(
		trueFirst(a.Complete, b.Complete),
		trueFirst(a.Identity.Representation != Metadata, b.Identity.Representation != Metadata),
		trueFirst(a.MustRelist == "", b.MustRelist == ""),
		b.LastContact.Compare(a.LastContact),
		cmp.Compare(a.Identity.ID(), b.Identity.ID()),
	)
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
