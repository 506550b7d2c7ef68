package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/format"
)

// ErrNoCollection means that the file has no collection of this name. Package store exports it as ErrNoCollection.
var ErrNoCollection = errors.New("no such collection in the store")

// CollectionState is the stored state of a collection: its Info, and fields that only the store uses.
type CollectionState struct {
	entry.Info
	Indexes map[string]format.IndexState
	// Dictionary is the id of the dictionary that last compressed new records; 0 means none.
	Dictionary uint64
	Log        changelog.State // Log has the current NextSeq. Info.NextSeq is the value when the state was read.
}

// GetState reads the state of the collection with bucket b. Errors contain the collection's name.
func GetState(b *bolt.Bucket, name string) (CollectionState, error) {
	data := b.Get(format.KeyInfo)
	if data == nil {
		return CollectionState{}, fmt.Errorf("collection %s has no info record: %w", name, entry.ErrDamaged)
	}
	r, err := format.ParseInfo(name, data)
	if err != nil {
		return CollectionState{}, err
	}
	return stateOf(&r), nil
}

// AllStates returns the state of every collection in the file.
func AllStates(tx *bolt.Tx) (states []CollectionState, err error) {
	root := tx.Bucket(format.BucketLarder)
	if root == nil {
		return nil, nil
	}
	err = root.ForEachBucket(func(name []byte) error {
		st, err := GetState(root.Bucket(name), string(name))
		states = append(states, st)
		return err
	})
	return states, err
}

// FindCollection returns the bucket and the state of a collection.
func FindCollection(tx *bolt.Tx, name string) (*bolt.Bucket, CollectionState, error) {
	b, err := CollectionBucket(tx, name)
	if err != nil {
		return nil, CollectionState{}, err
	}
	st, err := GetState(b, name)
	return b, st, err
}

// UpdateState calls fn with the bucket and the stored state of a collection, and stores the changed state if fn returns
// nil.
func UpdateState(tx *bolt.Tx, name string, fn func(b *bolt.Bucket, st *CollectionState) error) error {
	b, st, err := FindCollection(tx, name)
	if err == nil {
		err = fn(b, &st)
	}
	if err != nil {
		return err
	}
	return PutState(b, name, st)
}

// PutState writes the state of the collection with bucket b. Get reads it.
func PutState(b *bolt.Bucket, name string, s CollectionState) error {
	data, err := format.AppendInfo(nil, name, newInfoRecord(s))
	if err != nil {
		return err
	}
	return b.Put(format.KeyInfo, data)
}

func newInfoRecord(s CollectionState) *format.Info {
	r := &format.Info{
		Group: s.Identity.Group, Version: s.Identity.Version, Resource: s.Identity.Resource,
		Namespace: s.Identity.Namespace, LabelSelector: s.Identity.LabelSelector,
		FieldSelector: s.Identity.FieldSelector, ShardSelector: s.Identity.ShardSelector,
		Representation: string(s.Identity.Representation),
		ClusterID:      s.Attributes.ClusterID, Codec: s.Attributes.Codec, Schema: s.Attributes.Schema,
		Transform: s.Attributes.Transform, Wire: s.Attributes.Wire, OpenAPI: s.Attributes.OpenAPI,
		Kind: s.Info.Resource.Kind, Singular: s.Info.Resource.Singular,
		ShortNames: s.Info.Resource.ShortNames, Namespaced: s.Info.Resource.Namespaced,
		Categories: s.Info.Resource.Categories, Columns: s.Info.Resource.Columns,
		Selectable:      s.Info.Resource.SelectableFields,
		Deprecated:      s.Info.Resource.Deprecated,
		ListKind:        s.Info.Resource.ListKind,
		Definition:      s.Info.Resource.Definition,
		RequestedAs:     s.Info.Resource.RequestedAs,
		ResourceVersion: s.ResourceVersion, Complete: s.Complete, MustRelist: s.MustRelist,
		Objects: s.Objects, Indexes: s.Indexes, Dictionary: s.Dictionary,
		Sealed: s.Sealed, PlainText: s.PlainText,
		LeftOut: leftOutRecords(s.LeftOut), LeftOutMore: s.LeftOutMore,
	}
	s.Log.Store(r)
	if !s.LastContact.IsZero() {
		r.LastContact = s.LastContact.UnixNano()
	}
	for _, ref := range s.Newest {
		r.Newest = append(r.Newest, format.Ref{Key: ref.Key, UID: ref.UID, RV: ref.ResourceVersion})
	}
	return r
}

func stateOf(r *format.Info) CollectionState {
	s := CollectionState{
		Info: entry.Info{
			Identity: r.Identity(),
			Attributes: entry.Attributes{
				ClusterID: r.ClusterID, Codec: r.Codec, Schema: r.Schema, Transform: r.Transform, Wire: r.Wire,
				OpenAPI: r.OpenAPI,
			},
			Resource: entry.ResourceInfo{
				Kind: r.Kind, Singular: r.Singular, ShortNames: r.ShortNames, Namespaced: r.Namespaced,
				Categories: r.Categories, Columns: r.Columns,
				SelectableFields: r.Selectable, Deprecated: r.Deprecated, ListKind: r.ListKind,
				Definition:  r.Definition,
				RequestedAs: r.RequestedAs,
			},
			ResourceVersion: r.ResourceVersion, Complete: r.Complete, MustRelist: r.MustRelist,
			Objects: r.Objects, NextSeq: r.NextSeq, Sealed: r.Sealed, PlainText: r.PlainText,
			LeftOut: leftOutFrom(r.LeftOut), LeftOutMore: r.LeftOutMore,
		},
		Indexes: r.Indexes, Dictionary: r.Dictionary,
		Log: changelog.StateOf(r),
	}
	if r.LastContact != 0 {
		s.LastContact = time.Unix(0, r.LastContact)
	}
	for _, ref := range r.Newest {
		s.Newest = append(s.Newest, entry.ObjectRef{Key: ref.Key, UID: ref.UID, ResourceVersion: ref.RV})
	}
	if len(s.Newest) > 0 && !s.Info.Resource.Namespaced { // CollectionOptions.Resource may have lacked Namespaced.
		s.Info.Resource.Namespaced = strings.Contains(s.Newest[0].Key, "/")
	}
	if s.Indexes == nil {
		s.Indexes = map[string]format.IndexState{}
	}
	return s
}

func leftOutRecords(all []entry.LeftOut) (records []format.LeftOut) {
	for _, l := range all {
		records = append(records, format.LeftOut{Key: l.Key, UID: l.UID, RV: l.ResourceVersion, Reason: string(l.Reason)})
	}
	return records
}

func leftOutFrom(records []format.LeftOut) (all []entry.LeftOut) {
	for _, r := range records {
		ref := entry.ObjectRef{Key: r.Key, UID: r.UID, ResourceVersion: r.RV}
		all = append(all, entry.LeftOut{ObjectRef: ref, Reason: entry.LeftOutReason(r.Reason)})
	}
	return all
}

// CollectionBucket returns the bucket of the collection with this name. It fails with ErrNone if there is none.
func CollectionBucket(tx *bolt.Tx, name string) (*bolt.Bucket, error) {
	if root := tx.Bucket(format.BucketLarder); root != nil {
		if b := root.Bucket([]byte(name)); b != nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("collection %s: %w", name, ErrNoCollection)
}

// Follow copies the fields that a batch or a list can change from info, except Objects and NextSeq.
func (st *CollectionState) Follow(info entry.Info) {
	st.ResourceVersion, st.LastContact, st.Newest = info.ResourceVersion, info.LastContact, info.Newest
	st.LeftOut, st.LeftOutMore = info.LeftOut, info.LeftOutMore
	st.Complete, st.Attributes, st.MustRelist = info.Complete, info.Attributes, info.MustRelist
}

// Covers is the state of a collection after the writes in its memtable: the Info that the next commit stores with them,
// and further fields that only the commit uses.
type Covers struct {
	entry.Info
	EndedList *EndedList // EndedList is the last list that has ended since the last commit, or nil.
	// Timeline is the number of the timeline of the collection's history, and Oldest the oldest resourceVersion from which
	// a watch can follow it; see history.Window.Timeline. They are zero without a history.
	Timeline uint64
	Oldest   string
}

// EndedList describes a list that ended since the last commit.
type EndedList struct {
	Rewritten bool // Rewritten is true if the list rewrote every record, so that old dictionaries may be unused.
}

// CreateCollection creates a collection with the state st. It does nothing if the file has the collection.
func CreateCollection(tx *bolt.Tx, name string, st CollectionState) error {
	root, err := tx.CreateBucketIfNotExists(format.BucketLarder)
	if err != nil || root.Bucket([]byte(name)) != nil {
		return err
	}
	b, err := root.CreateBucket([]byte(name))
	if err == nil {
		err = CreateBuckets(b, st)
	}
	if err != nil {
		return err
	}
	return PutState(b, name, st)
}

// CreateBuckets creates the missing buckets of a collection with the state st in b.
func CreateBuckets(b *bolt.Bucket, st CollectionState) error {
	if _, err := b.CreateBucketIfNotExists(format.BucketObjects); err != nil {
		return err
	}
	indexes, err := b.CreateBucketIfNotExists(format.BucketIndex)
	if err != nil {
		return err
	}
	for index := range st.Indexes {
		if _, err := indexes.CreateBucketIfNotExists([]byte(index)); err != nil {
			return err
		}
	}
	if !st.Log.Kept() {
		return nil
	}
	return changelog.Create(b)
}

// CheckBuckets returns an error if b lacks a bucket of a collection with the state st.
func CheckBuckets(r *Reader, b *bolt.Bucket, st CollectionState) error {
	if _, err := r.Objects(b); err != nil {
		return err
	}
	for name := range st.Indexes {
		if indexes := b.Bucket(format.BucketIndex); indexes == nil || indexes.Bucket([]byte(name)) == nil {
			return fmt.Errorf("collection %s has no bucket of index %q: %w", r.Name, name, entry.ErrDamaged)
		}
	}
	return nil
}
