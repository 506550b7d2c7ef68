package format

import (
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
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

type LeftOut struct {
	Key    string `msgpack:"key"`
	UID    string `msgpack:"uid,omitempty"`
	RV     string `msgpack:"rv,omitempty"`
	Reason string `msgpack:"reason"`
}

func (r *Info) Identity() entry.Identity {
	return entry.Identity{
		GroupVersionResource: schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource},
		Namespace:            r.Namespace, LabelSelector: r.LabelSelector,
		FieldSelector: r.FieldSelector, ShardSelector: r.ShardSelector,
		Representation: entry.Representation(r.Representation),
	}
}

func AppendInfo(dst []byte, collection string, r *Info) ([]byte, error) {
	payload, err := msgpack.Marshal(r)
	if err != nil {
		return dst, fmt.Errorf("info record of collection %s: %w", collection, err)
	}
	return AppendRecord(dst, collection, string(KeyInfo), Header{Encoding: "info"}, payload), nil
}

func ParseInfo(collection string, data []byte) (r Info, err error) {
	_, payload, err := ParseRecord(collection, string(KeyInfo), data)
	if err != nil {
		return r, err
	}
	if err := msgpack.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("info record of collection %s: %w: %w", collection, err, entry.ErrDamaged)
	}
	return r, nil
}
