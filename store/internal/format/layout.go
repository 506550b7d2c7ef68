package format

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

// Version is the version of the file format that this program reads and writes.
const Version = 1

// Top-level buckets of the file.
var (
	BucketLarder    = []byte("larder")
	BucketDocuments = []byte("documents") // name → record of a document that a program keeps beside collections
	BucketDropped   = []byte("dropped")   // transaction id → buckets of dropped collections that are not removed yet
)

// Keys in BucketLarder, which also has one bucket for each collection, named by Identity.ID.
var (
	KeyFormat  = []byte("format")  // Version as big-endian uint64, and its CRC-32C; the same in every format
	KeyCreated = []byte("created") // time when the file was made, in RFC 3339
	KeyFileID  = []byte("file-id") // random id of the file, in hex
	KeyClean   = []byte("clean")   // present if the file was closed cleanly
	KeyKeys    = []byte("keys")    // the wrapped data keys, once something has been sealed
	KeyTimes   = []byte("times")   // the wall clock and the steady clock at the last commit; see boltfile.Times
)

// The key and the buckets of every collection.
var (
	KeyInfo            = []byte("info") // record with the state of the collection: Info, as msgpack
	BucketObjects      = []byte("objects")
	BucketIndex        = []byte("index")
	BucketDictionaries = []byte("dict") // dictionaries of compressed records
)

// Buckets in the bucket of a collection with a changelog.
var (
	BucketSeq        = []byte("seq")
	BucketTombstones = []byte("tombstones")
	BucketCursors    = []byte("handlers")
	BucketTimes      = []byte("times") // sequence number → Mark, the time of its commit, if changes are kept for readers
)

// Suffixes of the files beside the store. Their names begin with the store's path.
const (
	SuffixOpening = ".opening"  // exists while a process opens the store; see boltfile.TakeMark
	SuffixNew     = ".new-"     // a store that is being made; after a crash, the next open removes it
	SuffixDamaged = ".damaged-" // a damaged store that was moved aside, followed by the time (UTC)
)

// Info is the state of a collection: the payload of the record under KeyInfo in the collection's bucket. The tags are
// part of the format. Fields that a later program adds are ignored.
type Info struct {
	Group           string                `msgpack:"group,omitempty"`
	Version         string                `msgpack:"version"`
	Resource        string                `msgpack:"resource"`
	Namespace       string                `msgpack:"namespace,omitempty"`
	LabelSelector   string                `msgpack:"labelSelector,omitempty"`
	FieldSelector   string                `msgpack:"fieldSelector,omitempty"`
	ShardSelector   string                `msgpack:"shardSelector,omitempty"`
	Representation  string                `msgpack:"representation"`
	ClusterID       string                `msgpack:"clusterID,omitempty"`
	Codec           string                `msgpack:"codec,omitempty"`
	Schema          string                `msgpack:"schema,omitempty"`
	Transform       string                `msgpack:"transform,omitempty"`
	Wire            string                `msgpack:"wire,omitempty"`
	OpenAPI         string                `msgpack:"openAPI,omitempty"`
	Kind            string                `msgpack:"kind,omitempty"`
	Singular        string                `msgpack:"singular,omitempty"`
	ShortNames      []string              `msgpack:"shortNames,omitempty"`
	Namespaced      bool                  `msgpack:"namespaced,omitempty"`
	Categories      []string              `msgpack:"categories,omitempty"`
	Columns         []entry.Column        `msgpack:"columns,omitempty"`
	Selectable      []string              `msgpack:"selectable,omitempty"`
	Deprecated      string                `msgpack:"deprecated,omitempty"`
	ListKind        string                `msgpack:"listKind,omitempty"`
	Definition      string                `msgpack:"definition,omitempty"`
	RequestedAs     []string              `msgpack:"requestedAs,omitempty"`
	ResourceVersion string                `msgpack:"resourceVersion,omitempty"`
	Complete        bool                  `msgpack:"complete,omitempty"`
	MustRelist      string                `msgpack:"mustRelist,omitempty"`
	Objects         int                   `msgpack:"objects"`
	LastContact     int64                 `msgpack:"lastContact,omitempty"` // Unix time in nanoseconds; 0 means never
	NextSeq         uint64                `msgpack:"nextSeq"`
	Newest          []Ref                 `msgpack:"newest,omitempty"`
	LeftOut         []LeftOut             `msgpack:"leftOut,omitempty"`
	LeftOutMore     bool                  `msgpack:"leftOutMore,omitempty"`
	Indexes         map[string]IndexState `msgpack:"indexes,omitempty"`
	Dictionary      uint64                `msgpack:"dictionary,omitempty"`
	Tombstones      int                   `msgpack:"tombstones,omitempty"`
	FeedSince       uint64                `msgpack:"feedSince,omitempty"`
	FeedLacks       uint64                `msgpack:"feedLacks,omitempty"`
	Retain          time.Duration         `msgpack:"retain,omitempty"`
	Marked          uint64                `msgpack:"marked,omitempty"`
	ListedSeq       uint64                `msgpack:"listedSeq,omitempty"`
	ListedRV        string                `msgpack:"listedRV,omitempty"`
	Sealed          bool                  `msgpack:"sealed,omitempty"`
	PlainText       bool                  `msgpack:"plainText,omitempty"`
}

// MustRelistDamaged is the Info.MustRelist of a collection that has lost objects to damage, until the next relist.
const MustRelistDamaged = "damaged"

// MustRelistInterrupted is the Info.MustRelist while readers see only a part of a relist's changes. It stays after a
// crash or an Abort at that time.
const MustRelistInterrupted = "a relist was interrupted while its changes were being applied"

// Ref identifies one of the newest objects of a collection.
type Ref struct {
	Key string `msgpack:"key"`
	UID string `msgpack:"uid"`
	RV  string `msgpack:"rv"`
}

// IndexState is the stored state of an index.
type IndexState struct {
	// Version is the caller's version of the index function. Without a version, the next process builds the index anew.
	Version string `msgpack:"version,omitempty"`
	// Ready is true if every record has its entries in the index. Before that, some records may lack entries; but every
	// entry is named in a record's header.
	Ready bool `msgpack:"ready,omitempty"`
	// Idle is true if a process has written objects to the collection without a function for this index. If the next
	// process has no function for the index either, the index is dropped.
	Idle bool `msgpack:"idle,omitempty"`
}

// LeftOut is the stored form of entry.LeftOut.
type LeftOut struct {
	Key    string `msgpack:"key"`
	UID    string `msgpack:"uid,omitempty"`
	RV     string `msgpack:"rv,omitempty"`
	Reason string `msgpack:"reason"`
}

// Identity returns the identity of the collection.
func (r *Info) Identity() entry.Identity {
	return entry.Identity{
		GroupVersionResource: schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource},
		Namespace:            r.Namespace, LabelSelector: r.LabelSelector,
		FieldSelector: r.FieldSelector, ShardSelector: r.ShardSelector,
		Representation: entry.Representation(r.Representation),
	}
}

// AppendInfo appends the info record of the collection to dst.
func AppendInfo(dst []byte, collection string, r *Info) ([]byte, error) {
	payload, err := msgpack.Marshal(r)
	if err != nil {
		return dst, fmt.Errorf("info record of collection %s: %w", collection, err)
	}
	return AppendRecord(dst, collection, string(KeyInfo), Header{Encoding: "info"}, payload), nil
}

// ParseInfo is the reverse of AppendInfo. Its errors wrap entry.ErrDamaged.
func ParseInfo(collection string, data []byte) (r Info, err error) {
	_, payload, err := ParseOther(collection, string(KeyInfo), data)
	if err != nil {
		return r, err
	}
	if err := msgpack.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("info record of collection %s: %w: %w", collection, err, entry.ErrDamaged)
	}
	return r, nil
}

// DataKey is a wrapped data key as stored.
type DataKey struct {
	ID      uint64 `msgpack:"id"`
	Key     string `msgpack:"key"` // id of the provider's key that wrapped this data key
	Wrapped []byte `msgpack:"wrapped"`
	Check   []byte `msgpack:"check"`
	Created int64  `msgpack:"created"` // Unix time in seconds
}

// dataKeys is the payload of the record under KeyKeys. Fields that a later program adds are ignored.
type dataKeys struct {
	Keys []DataKey `msgpack:"keys"` // oldest first
}

// AppendKeys appends the record of the data keys, the oldest first, to dst.
func AppendKeys(dst []byte, keys []DataKey) ([]byte, error) {
	payload, err := msgpack.Marshal(&dataKeys{keys})
	if err != nil {
		return nil, fmt.Errorf("the record of the data keys: %w", err)
	}
	return AppendRecord(dst, string(BucketLarder), string(KeyKeys), Header{Encoding: "keys"}, payload), nil
}

// ParseKeys returns the data keys of a file. Nil data, without keys, means that nothing was ever sealed in the file. It
// fails with entry.ErrIncompatible if a newer program wrote the record.
func ParseKeys(data []byte) ([]DataKey, error) {
	if data == nil {
		return nil, nil
	}
	h, payload, err := ParseOther(string(BucketLarder), string(KeyKeys), data)
	if err != nil {
		return nil, fmt.Errorf("the record of the data keys: %w", err)
	}
	if h.Unknown != 0 {
		return nil,
			fmt.Errorf(
				"the record of the data keys is of version %d, which a newer program has written; nothing was changed: use that "+
					"program: %w", h.Unknown, entry.ErrIncompatible)
	}
	var r dataKeys
	if err := msgpack.Unmarshal(payload, &r); err != nil {
		return nil, fmt.Errorf("the record of the data keys: %w: %w", err, entry.ErrDamaged)
	}
	return r.Keys, nil
}

// AppendDocument appends the record of a document to dst.
func AppendDocument(dst []byte, name string, data []byte) []byte {
	return AppendRecord(dst, string(BucketDocuments), name, Header{Encoding: "document"}, data)
}

// ParseDocument returns the document in a record. It fails with entry.ErrDamaged if the checksum is wrong.
func ParseDocument(name string, data []byte) ([]byte, error) {
	_, payload, err := ParseOther(string(BucketDocuments), name, data)
	return payload, err
}

// RandomID returns a random id other than 0, which means no id.
func RandomID() uint64 {
	var id [8]byte
	for {
		_, _ = rand.Read(id[:]) // never fails
		if n := binary.BigEndian.Uint64(id[:]); n != 0 {
			return n
		}
	}
}
