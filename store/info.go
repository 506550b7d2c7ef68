package store

import (
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/internal/memtable"
)

// Info is the state of a collection as of one transaction.
type Info struct {
	Identity   entry.Identity
	Attributes entry.Attributes
	Resource   entry.ResourceInfo
	// ResourceVersion covers every object in the collection. Empty means that
	// a watch cannot be resumed. A resourceVersion that cannot be compared (see
	// apimachinery's CompareResourceVersion) is never stored: the field is left
	// empty and MustRelist says why.
	ResourceVersion string
	// Complete is true once a whole list has been stored. A complete collection
	// without objects was listed, and the list was empty.
	Complete bool
	// MustRelist says why the contents can be served but a watch cannot be
	// resumed from them; empty if it can.
	MustRelist string
	Objects    int
	// LastContact is the time of the last contact with the server.
	LastContact time.Time
	// LastUsed is when the collection was last open for writing, by the wall clock and accurate to a day.
	LastUsed time.Time
	// NextSeq is the sequence number that the next written record gets.
	NextSeq uint64
	// Newest are a few of the stored objects with the highest resourceVersion,
	// newest first: the rewind check compares them with the server.
	// May be empty.
	Newest []entry.ObjectRef
	// LeftOut names objects that were refused and that the next start fetches again: at most MaxLeftOut, in key order. It
	// must not be modified. LeftOutMore is true if there may be others; only a list brings those.
	LeftOut     []entry.LeftOut
	LeftOutMore bool
	// Sealed is true if new records are sealed (Options.Encryption). PlainText is true if the file still has plain text
	// from before, in records or in free pages; Rekey removes it.
	Sealed, PlainText bool
}

// state is the stored state of a collection: Info, and fields that only this package uses.
type state struct {
	Info
	indexes map[string]format.IndexState
	// dictionary is the id of the dictionary that records were last compressed with; 0 if there was none.
	dictionary uint64
	log        changelog.State // has NextSeq; Info.NextSeq is what it was when the state was read
	// usedAt is LastUsed by the store's steady time; zero if a build wrote it that did not have this field.
	usedAt time.Time
}

// getState reads the state of the collection in bucket b. name is for errors.
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

// updateState calls fn with the bucket and the state of a collection, and stores the state if fn returns nil.
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

// putState writes the state of the collection in bucket b; getState reads it.
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
		Objects: s.Objects, Indexes: s.indexes, Dictionary: s.dictionary,
		Sealed: s.Sealed, PlainText: s.PlainText,
		LeftOut: leftOutRecords(s.LeftOut), LeftOutMore: s.LeftOutMore,
	}
	s.log.Store(r)
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
			Identity: r.Identity(),
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
		indexes: r.Indexes, dictionary: r.Dictionary,
		log: changelog.StateOf(r),
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
	if len(s.Newest) > 0 && !s.Info.Resource.Namespaced { // CollectionOptions.Resource may have been incomplete
		s.Info.Resource.Namespaced = strings.Contains(s.Newest[0].Key, "/")
	}
	if s.indexes == nil {
		s.indexes = map[string]format.IndexState{}
	}
	return s
}

// clone returns the Info with its own copy of Newest.
func (i Info) clone() Info {
	i.Newest = append([]entry.ObjectRef(nil), i.Newest...)
	return i
}

// take updates Objects and Newest for the write x. found says whether its key was stored before.
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
