package snapshot

import (
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot/internal/layout"
)

// FormatVersion is the version of the format of snapshots.
const FormatVersion = layout.Version

// Header describes a snapshot.
type Header struct {
	// ClusterID identifies the cluster, as in entry.Attributes; empty means unknown.
	ClusterID string `json:"clusterID,omitempty"`
	// ServerVersion is the version of the API server, such as v1.36.3; empty means unknown.
	ServerVersion string `json:"serverVersion,omitempty"`
	// TakenAt is when the snapshot was taken; zero means unknown.
	TakenAt time.Time `json:"takenAt,omitzero"`
	// Larder is the version of the program that wrote the snapshot; at most 255 bytes.
	Larder string `json:"larder,omitempty"`
	// Filter and Redaction are those of the save; nil for none. Each Collection counts the objects that they left out.
	Filter    *Filter    `json:"filter,omitempty"`
	Redaction *Redaction `json:"redaction,omitempty"`
	// LeftOut has, for people, an entry for each collection that is not in the snapshot, with the reason.
	LeftOut []string `json:"leftOut,omitempty"`
}

// Collection describes a collection of a snapshot. The names in its tags are part of the format.
type Collection struct {
	Identity   entry.Identity     `json:"-"` // these three are fields of collectionText
	Attributes entry.Attributes   `json:"-"`
	Resource   entry.ResourceInfo `json:"-"`
	// ResourceVersion covers every object. Empty means that nothing can be resumed.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Complete is true if the collection is a whole list.
	Complete bool `json:"complete,omitempty"`
	// MustRelist is why the contents cannot be resumed; empty if they can. It is set if objects or values were left out.
	MustRelist string `json:"mustRelist,omitempty"`
	// LastContact is when the server was last heard; zero means unknown.
	LastContact time.Time `json:"lastContact,omitzero"`
	// Filtered and Redacted have, for people, an entry for each kind of thing that was left out; empty if none was.
	Filtered []string `json:"filtered,omitempty"`
	Redacted []string `json:"redacted,omitempty"`
	// Sealed is true if the store seals the collection. Restore writes it in plain text only if it is asked to.
	Sealed bool `json:"sealed,omitempty"`
	// Objects is the number of objects, Bytes the sum of their payloads, Blocks the number of their blocks. They are 0 if
	// unknown: in Sources that are no snapshots, or if objects may be left out.
	Objects int   `json:"objects,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
	Blocks  int   `json:"blocks,omitempty"`
}

// Info returns what a store would say about the collection.
func (c Collection) Info() entry.Info {
	return entry.Info{
		Identity: c.Identity, Attributes: c.Attributes, Resource: c.Resource, ResourceVersion: c.ResourceVersion,
		Complete: c.Complete, MustRelist: c.MustRelist, LastContact: c.LastContact, Objects: c.Objects,
	}
}

var secrets = schema.GroupResource{Resource: "secrets"}

// Confidential returns why c must not be written in plain text unless the user asks for it; "" if it may be. Every way
// out of a store asks it: save, export, restore, diff, and programs that serve objects.
func (c Collection) Confidential() string {
	switch {
	case c.SecretsRedacted(): // now, or when what is read was written
		return ""
	case c.Identity.GroupResource() == secrets:
		return "they are Secrets"
	case c.Sealed:
		return "the store that they are from seals them"
	}
	return ""
}

// SecretsRedacted reports whether c has Secrets whose values Redaction.Secrets has replaced, so that they may be
// written in plain text.
func (c Collection) SecretsRedacted() bool {
	return c.Identity.GroupResource() == secrets && slices.Contains(c.Redacted, redactedValues)
}

// Manifest describes a snapshot and its collections.
type Manifest struct {
	Header
	// Format is the version of the file's format.
	Format uint32
	// Encrypted is true if the file is encrypted.
	Encrypted bool
	// Digest is a SHA-256 that covers the whole contents.
	Digest [sha256.Size]byte
	// SignatureKey is the id of the key with which the snapshot says to be signed, as minisign prints it; empty if it is
	// not signed. It has been verified only if OpenOptions.SignedBy was given.
	SignatureKey string
	// Collections are in the order of the file.
	Collections []Collection
	// Documents are the names of what the snapshot has beside collections: what is known of the API server. They are in
	// the order of the file. File.Document reads one.
	Documents []string
}

// collectionText is a collection in the catalog. The names are part of the format; fields that a later build adds are
// ignored.
type collectionText struct {
	Group          string `json:"group,omitempty"`
	Version        string `json:"version"`
	Resource       string `json:"resource"`
	Namespace      string `json:"namespace,omitempty"`
	LabelSelector  string `json:"labelSelector,omitempty"`
	FieldSelector  string `json:"fieldSelector,omitempty"`
	ShardSelector  string `json:"shardSelector,omitempty"`
	Representation string `json:"representation"`

	entry.Attributes
	entry.ResourceInfo
	Collection

	// Stored is how many bytes the blocks take in the file, and Index the index behind them.
	Stored      int64  `json:"stored,omitempty"`
	Index       int    `json:"index,omitempty"`
	IndexDigest []byte `json:"indexDigest"`
}

// documentText is a document in the catalog.
type documentText struct {
	Name string `json:"name"`
	// Size is the document's, in bytes, and Stored how many it takes in the file: fewer if it is compressed.
	Size   int    `json:"size"`
	Stored int    `json:"stored"`
	Digest []byte `json:"digest"`
}

// sizes reports whether the sizes are possible.
func (t documentText) sizes() bool {
	return 0 <= t.Stored && t.Stored <= t.Size && t.Size <= layout.MaxPart
}

// catalog is the description of a snapshot in JSON, the last part but the footer.
type catalog struct {
	Header      Header           `json:"header"`
	Collections []collectionText `json:"collections"`
	Documents   []documentText   `json:"documents,omitempty"`
}

// Bounds of the catalog: the number of its collections and of its documents, and the bytes of the header and of each
// description.
const (
	maxDescribed   = 16 << 10
	maxHeader      = 4 << 20
	maxDescription = 256 << 10
)

// errCounts: the counts in a catalog are impossible. It does not quote them.
var errCounts = errors.New("its counts of objects, bytes and blocks cannot be")

// counts reports whether the counts are possible, so that they can be added up: a block has at least one record and a
// bounded size, and the index has an entry for it.
func (t collectionText) counts() bool {
	return t.Blocks >= 0 && t.Blocks <= t.Index && t.Index <= layout.MaxPart && t.Stored >= 0 &&
		t.Objects >= t.Blocks && int64(t.Objects) <= int64(t.Blocks)*layout.MaxPart &&
		t.Bytes >= 0 && t.Bytes <= int64(t.Blocks)*layout.MaxPart
}

// trim drops empty names and columns without a name, and the memory beyond the ends of lists: so what is kept of a
// description takes little more memory than its text.
func (t *collectionText) trim() {
	for _, names := range []*[]string{&t.ShortNames, &t.Categories, &t.SelectableFields, &t.RequestedAs, &t.Filtered,
		&t.Redacted} {
		*names = slices.Clone(slices.DeleteFunc(*names, func(name string) bool { return name == "" }))
	}
	t.Columns = slices.Clone(slices.DeleteFunc(t.Columns, func(c entry.Column) bool { return c.Name == "" }))
}

func textOf(c Collection) collectionText {
	id := c.Identity
	return collectionText{
		Group: id.Group, Version: id.Version, Resource: id.Resource, Namespace: id.Namespace,
		LabelSelector: id.LabelSelector, FieldSelector: id.FieldSelector, ShardSelector: id.ShardSelector,
		Representation: string(id.Representation), Attributes: c.Attributes, ResourceInfo: c.Resource, Collection: c,
	}
}

// collection is the inverse of textOf.
func (t collectionText) collection() (c Collection, err error) {
	if !t.counts() {
		return c, errCounts
	}
	t.trim()
	c = t.Collection
	c.Attributes, c.Resource = t.Attributes, t.ResourceInfo
	c.Identity, err = entry.Identity{
		GroupVersionResource: schema.GroupVersionResource{Group: t.Group, Version: t.Version, Resource: t.Resource},
		Namespace:            t.Namespace, LabelSelector: t.LabelSelector,
		FieldSelector: t.FieldSelector, ShardSelector: t.ShardSelector,
		Representation: entry.Representation(t.Representation),
	}.Canonical()
	return c, err
}
