package snapshot

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/layout"
	"github.com/larder-dev/larder/internal/msgpack"
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
	// Filter and Redaction are the filter and the redaction that the save applied; nil if none.
	Filter    *Filter    `json:"filter,omitempty"`
	Redaction *Redaction `json:"redaction,omitempty"`
	// LeftOut has an entry for each collection that the save left out, with the reason, as text for people.
	LeftOut []string `json:"leftOut,omitempty"`
}

// Collection describes a collection of a snapshot. The names in its tags are part of the format.
type Collection struct {
	// Identity, Attributes and Resource are stored in the fields of collectionText.
	Identity   entry.Identity     `json:"-"`
	Attributes entry.Attributes   `json:"-"`
	Resource   entry.ResourceInfo `json:"-"`
	// ResourceVersion is the resourceVersion at which the collection has exactly these objects. Empty: the collection
	// cannot be resumed.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Complete is true if the collection has all objects of a list.
	Complete bool `json:"complete,omitempty"`
	// MustRelist is the reason why the collection cannot be resumed; empty if it can. Filters and redactions set it.
	MustRelist string `json:"mustRelist,omitempty"`
	// LastContact is when the API server last confirmed or changed the collection; zero means unknown.
	LastContact time.Time `json:"lastContact,omitzero"`
	// Filtered and Redacted describe, for people, the objects and values left out, an entry for each rule; empty for none.
	Filtered []string `json:"filtered,omitempty"`
	Redacted []string `json:"redacted,omitempty"`
	// Sealed is true if the store seals the collection. Restore writes it in plain text only on request.
	Sealed bool `json:"sealed,omitempty"`
	// Objects is the number of objects, Bytes the sum of their payloads, Blocks the number of their blocks. 0 means
	// unknown in Sources other than snapshots, and in selections that may leave out objects.
	Objects int   `json:"objects,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
	Blocks  int   `json:"blocks,omitempty"`
}

// Info returns the description of the collection in the form that a store keeps.
func (c Collection) Info() entry.Info {
	return entry.Info{
		Identity: c.Identity, Attributes: c.Attributes, Resource: c.Resource, ResourceVersion: c.ResourceVersion,
		Complete: c.Complete, MustRelist: c.MustRelist, LastContact: c.LastContact, Objects: c.Objects,
	}
}

var secrets = schema.GroupResource{Resource: "secrets"}

// Confidential returns the reason why collection c must not be written in plain text without the user's request; "" if
// it may be. Every operation that outputs objects checks it: save, export, restore, diff, and programs that serve
// objects.
func (c Collection) Confidential() string {
	switch {
	case c.SecretsRedacted(): // the values were redacted by a selection, or by the save of this snapshot
		return ""
	case c.Identity.GroupResource() == secrets:
		return "they are Secrets"
	case c.Sealed:
		return "the store that they are from seals them"
	}
	return ""
}

// SecretsRedacted reports whether c has Secrets whose values Redaction.Secrets has replaced. These Secrets may be
// written in plain text.
func (c Collection) SecretsRedacted() bool {
	return c.Identity.GroupResource() == secrets && slices.Contains(c.Redacted, redactedValues)
}

// Manifest describes a snapshot and its collections.
type Manifest struct {
	Header
	Format    uint32
	Encrypted bool
	// Digest is the SHA-256 of the catalog, which contains the digests of all parts, so it covers the whole contents.
	Digest [sha256.Size]byte
	// SignatureKey is the id of the signing key that the snapshot claims, as minisign prints it; empty without a
	// signature. It is verified only if OpenOptions.SignedBy was given.
	SignatureKey string
	// Collections describes the collections of the snapshot, in the order of the file.
	Collections []Collection
	// Documents are the names of the documents about the API server, in the order of the file. File.Document reads one.
	Documents []string
}

// collectionText is the JSON of a collection in the catalog. Unknown members, which later versions write, are ignored.
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

	// Stored is the size of all blocks of the collection in the file, and Index the size of their index, in bytes.
	Stored      int64  `json:"stored,omitempty"`
	Index       int    `json:"index,omitempty"`
	IndexDigest []byte `json:"indexDigest"`
}

type documentText struct {
	Name string `json:"name"`
	// Size is the size of the document in bytes. Stored is its size in the file, which is smaller if it is compressed.
	Size   int    `json:"size"`
	Stored int    `json:"stored"`
	Digest []byte `json:"digest"`
}

func (t documentText) sizes() bool {
	return 0 <= t.Stored && t.Stored <= t.Size && t.Size <= layout.MaxPart
}

// catalog describes all collections and documents of a snapshot, in JSON, near the end of the file.
type catalog struct {
	Header      Header           `json:"header"`
	Collections []collectionText `json:"collections"`
	Documents   []documentText   `json:"documents,omitempty"`
}

// maxDescribed bounds the number of collections, and of documents, in a catalog. maxHeader and maxDescription bound the
// bytes of the header and of one description.
const (
	maxDescribed   = 16 << 10
	maxHeader      = 4 << 20
	maxDescription = 256 << 10
)

// errCounts: the numbers of objects, bytes and blocks in a catalog are impossible. The text does not quote them.
var errCounts = errors.New("its counts of objects, bytes and blocks cannot be")

// counts reports whether the numbers of objects, bytes and blocks are possible, so that sums of them cannot overflow. A
// block has at least one record and a bounded size, and the index has an entry for it.
func (t collectionText) counts() bool {
	return t.Blocks >= 0 && t.Blocks <= t.Index && t.Index <= layout.MaxPart && t.Stored >= 0 &&
		t.Objects >= t.Blocks && int64(t.Objects) <= int64(t.Blocks)*layout.MaxPart &&
		t.Bytes >= 0 && t.Bytes <= int64(t.Blocks)*layout.MaxPart
}

// trim drops empty names and unused capacity from the description, so that it takes little more memory than its JSON.
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

// collection returns the Collection that this JSON describes. textOf is the inverse.
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

// Decoder decodes the records of one collection to unstructured objects. It is safe for concurrent use.
//
// Msgpack payloads need no Go type: a map is an unstructured object, and a bin value is the JSON of a typed object.
// Protobuf payloads need PartialObjectMetadata, or the Go type that client-go's scheme registers for the kind.
type Decoder struct {
	id   entry.Identity
	kind string
	// example is an object of the Go type of protobuf payloads, and typed is its codec. Both are nil for an unknown type.
	example runtime.Object
	typed   codec.Codec
	view    codec.Codec
}

// NewDecoder returns the decoder of collection c.
func NewDecoder(c Collection) *Decoder {
	d := &Decoder{id: c.Identity, kind: c.Resource.Kind}
	gvk := c.Identity.GroupVersion().WithKind(c.Resource.Kind)
	if c.Identity.Representation == entry.Metadata {
		d.example = &metav1.PartialObjectMetadata{}
	} else if obj, err := scheme.Scheme.New(gvk); err == nil {
		d.example = obj
	}
	if typed, err := codec.For(d.example); err == nil {
		d.typed = typed
	}
	d.view, _ = codec.View(c.Identity.Representation, d.typed) // cannot fail: PartialObjectMetadata has a codec
	return d
}

// Codec returns a codec that decodes the collection's payloads to unstructured objects; see [codec.View].
func (d *Decoder) Codec() codec.Codec { return d.view }

// Decode returns the object of a record. Typed clients leave apiVersion and kind empty; Decode then sets the
// collection's, if known. It fails with ErrUndecodable if the type is unknown, and with ErrDamaged if the payload does
// not fit its encoding.
func (d *Decoder) Decode(r entry.Entry) (*unstructured.Unstructured, error) {
	u, err := d.decodeExactly(r)
	if err != nil {
		return nil, err
	}
	if u.GetKind() == "" && u.GetAPIVersion() == "" && d.kind != "" && d.id.Representation != entry.Metadata {
		u.SetGroupVersionKind(d.id.GroupVersion().WithKind(d.kind))
	}
	return u, nil
}

// decodeExactly is Decode, but does not set apiVersion and kind.
func (d *Decoder) decodeExactly(r entry.Entry) (*unstructured.Unstructured, error) {
	obj, err := codec.Decode(d.view, r.Encoding, r.Payload)
	switch {
	case errors.Is(err, entry.ErrIncompatible):
		return nil, d.undecodable(r)
	case err != nil:
		return nil, fmt.Errorf("%q cannot be decoded: malformed %s: %w", r.Key, r.Encoding, ErrDamaged)
	}
	u := obj.(*unstructured.Unstructured)
	if u.Object == nil {
		return nil, fmt.Errorf("%q cannot be decoded: it is no object: %w", r.Key, ErrDamaged)
	}
	return u, nil
}

// encode replaces the payload of r with the object u, in the payload's encoding. u comes from decodeExactly.
func (d *Decoder) encode(r *entry.Entry, u *unstructured.Unstructured) (err error) {
	switch {
	case r.Encoding == codec.EncodingProtobuf:
		obj := d.example.DeepCopyObject()
		// The converter's error may quote the object, so it is not returned.
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj) != nil {
			return fmt.Errorf("%s: encode %q: it does not fit its type any more", d.id, r.Key)
		}
		r.Payload, err = d.typed.Append(nil, obj)
	case msgpack.IsBin(r.Payload[0]):
		var text []byte
		if text, err = json.Marshal(u.Object); err == nil {
			r.Payload = msgpack.AppendBin(nil, text)
		}
	default:
		r.Payload, err = codec.Unstructured().Append(nil, u)
	}
	if err != nil {
		return fmt.Errorf("%s: encode %q: %w", d.id, r.Key, err)
	}
	return nil
}

func (d *Decoder) undecodable(r entry.Entry) error {
	kind := d.kind
	if kind == "" {
		kind = "of unknown kind"
	}
	return fmt.Errorf("%s: %q (%s, in %s): %w", d.id, r.Key, kind, r.Encoding, ErrUndecodable)
}
