package store

import (
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// Info is the state of a collection as of one transaction.
type Info struct {
	Identity   entry.Identity
	Attributes entry.Attributes
	Resource   entry.ResourceInfo
	// ResourceVersion covers every object in the collection. Empty means that
	// nothing can be resumed. A resourceVersion that cannot be compared (see
	// apimachinery's CompareResourceVersion) is never stored: it is left empty
	// and MustRelist says why.
	ResourceVersion string
	// Complete is set once a whole list has been stored; an empty complete
	// collection was listed, and there was nothing.
	Complete bool
	// MustRelist is why the contents can be served but not resumed; empty if
	// they can.
	MustRelist string
	Objects    int
	// LastContact is when the server was last heard.
	LastContact time.Time
	// LastUsed is when the collection was last open for writing, to a day, as the clock showed then.
	LastUsed time.Time
	// NextSeq is the sequence number that the next written record gets.
	NextSeq uint64
	// Newest are a few of the stored objects with the highest resourceVersion,
	// newest first: the reflector compares them with the server to find one that was
	// rewound. May be empty.
	Newest []entry.ObjectRef
	// LeftOut are objects that were refused, and that the next start gets again: at most MaxLeftOut, in key order. It
	// must not be modified. LeftOutMore: there are, or may be, others, of which only a list can tell.
	LeftOut     []entry.LeftOut
	LeftOutMore bool
	// Sealed: what is written of the objects is sealed (Options.Encryption). PlainText: what was written before is not,
	// and remains in the file, in records or in pages that are free, until Rekey.
	Sealed, PlainText bool
}

// state is Info and what else is stored with it.
type state struct {
	Info
	indexes map[string]format.IndexState
	// dictionary is the id of the one that records were last compressed with; 0 if none was.
	dictionary uint64
	// tombstones is how many there are.
	tombstones int
	// feedSince is the number from which on every record is in the change feed; 0 if there is none.
	feedSince uint64
	// feedLacks is the highest number of which the change feed may lack a delete: who has not come to it starts over.
	feedLacks uint64
	// retain is how long deletes stay in the change feed for readers that nobody knows; 0: only handlers' are kept.
	retain time.Duration
	// usedAt is LastUsed by the store's steady time; zero: a build that did not know it.
	usedAt time.Time
}

// getState reads the state of the collection in b, whose name is name.
func getState(b *bolt.Bucket, name string) (state, error) {
	data := b.Get(format.KeyInfo)
	if data == nil {
		return state{}, fmt.Errorf("collection %s has no info record: %w", name, entry.ErrDamaged)
	}
	r, err := format.ParseInfo(name, data)
	if err != nil {
		return state{}, err
	}
	return stateOf(&r), nil
}

// findState returns the bucket and the state of a collection.
func findState(tx *bolt.Tx, name string) (*bolt.Bucket, state, error) {
	b, err := collectionBucket(tx, name)
	if err != nil {
		return nil, state{}, err
	}
	st, err := getState(b, name)
	return b, st, err
}

// updateState has fn change the state of a collection, and what else is in its bucket.
func updateState(tx *bolt.Tx, name string, fn func(b *bolt.Bucket, st *state) error) error {
	b, st, err := findState(tx, name)
	if err == nil {
		err = fn(b, &st)
	}
	if err != nil {
		return err
	}
	return putState(b, name, st)
}

// putState writes what getState reads.
func putState(b *bolt.Bucket, name string, s state) error {
	data, err := format.AppendInfo(nil, name, newInfoRecord(s))
	if err != nil {
		return err
	}
	return b.Put(format.KeyInfo, data)
}

func newInfoRecord(s state) *format.Info {
	r := &format.Info{
		Group: s.Identity.Group, Version: s.Identity.Version, Resource: s.Identity.Resource,
		Namespace: s.Identity.Namespace, LabelSelector: s.Identity.LabelSelector,
		FieldSelector: s.Identity.FieldSelector, ShardSelector: s.Identity.ShardSelector,
		Representation: string(s.Identity.Representation),
		ClusterID:      s.Attributes.ClusterID, Codec: s.Attributes.Codec, Schema: s.Attributes.Schema,
		Transform: s.Attributes.Transform, OpenAPI: s.Attributes.OpenAPI,
		Kind: s.Info.Resource.Kind, Singular: s.Info.Resource.Singular,
		ShortNames: s.Info.Resource.ShortNames, Namespaced: s.Info.Resource.Namespaced,
		Categories: s.Info.Resource.Categories, Columns: s.Info.Resource.Columns,
		ResourceVersion: s.ResourceVersion, Complete: s.Complete, MustRelist: s.MustRelist,
		Objects: s.Objects, NextSeq: s.NextSeq, Indexes: s.indexes, Dictionary: s.dictionary,
		Tombstones: s.tombstones, FeedSince: s.feedSince, FeedLacks: s.feedLacks, Retain: s.retain, Sealed: s.Sealed,
		PlainText: s.PlainText,
		LeftOut:   leftOutRecords(s.LeftOut), LeftOutMore: s.LeftOutMore,
	}
	if !s.LastContact.IsZero() {
		r.LastContact = s.LastContact.UnixNano()
	}
	if !s.LastUsed.IsZero() {
		r.LastUsed = s.LastUsed.UnixNano()
	}
	if !s.usedAt.IsZero() {
		r.UsedAt = s.usedAt.Unix()
	}
	for _, ref := range s.Newest {
		r.Newest = append(r.Newest, format.Ref{Key: ref.Key, UID: ref.UID, RV: ref.ResourceVersion})
	}
	return r
}

func stateOf(r *format.Info) state {
	s := state{
		Info: Info{
			Identity: entry.Identity{
				GroupVersionResource: schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource},
				Namespace:            r.Namespace, LabelSelector: r.LabelSelector,
				FieldSelector: r.FieldSelector, ShardSelector: r.ShardSelector,
				Representation: entry.Representation(r.Representation),
			},
			Attributes: entry.Attributes{
				ClusterID: r.ClusterID, Codec: r.Codec, Schema: r.Schema, Transform: r.Transform, OpenAPI: r.OpenAPI,
			},
			Resource: entry.ResourceInfo{
				Kind: r.Kind, Singular: r.Singular, ShortNames: r.ShortNames, Namespaced: r.Namespaced,
				Categories: r.Categories, Columns: r.Columns,
			},
			ResourceVersion: r.ResourceVersion, Complete: r.Complete, MustRelist: r.MustRelist,
			Objects: r.Objects, NextSeq: r.NextSeq, Sealed: r.Sealed, PlainText: r.PlainText,
			LeftOut: leftOutFrom(r.LeftOut), LeftOutMore: r.LeftOutMore,
		},
		indexes: r.Indexes, dictionary: r.Dictionary, tombstones: r.Tombstones, feedSince: r.FeedSince,
		feedLacks: r.FeedLacks, retain: max(r.Retain, 0),
	}
	if r.LastContact != 0 {
		s.LastContact = time.Unix(0, r.LastContact)
	}
	if r.LastUsed != 0 {
		s.LastUsed = time.Unix(0, r.LastUsed)
	}
	if r.UsedAt != 0 {
		s.usedAt = time.Unix(r.UsedAt, 0)
	}
	for _, ref := range r.Newest {
		s.Newest = append(s.Newest, entry.ObjectRef{Key: ref.Key, UID: ref.UID, ResourceVersion: ref.RV})
	}
	if len(s.Newest) > 0 && !s.Info.Resource.Namespaced { // whoever opened the collection may not have known
		s.Info.Resource.Namespaced = strings.Contains(s.Newest[0].Key, "/")
	}
	if s.indexes == nil {
		s.indexes = map[string]format.IndexState{}
	}
	return s
}

// clone returns the Info with slices of its own.
func (i Info) clone() Info {
	i.Newest = append([]entry.ObjectRef(nil), i.Newest...)
	return i
}

// take counts what x does to a key that was found, or not.
func (i *Info) take(x *memtable.Write, found bool) {
	switch {
	case x.Del:
		i.Newest = dropRef(i.Newest, x.Key)
		if found {
			i.Objects--
		}
	default:
		i.Newest = offerRef(i.Newest, entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV}, newestRefs)
		if !found {
			i.Objects++
		}
	}
}
