package serve

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/history"
)

// Source has the collections that a Handler serves. The functions Store, Mirror and Snapshot return one.
type Source interface {
	facts.Documents
	collections(ctx context.Context) ([]described, error)
	open(ctx context.Context, id entry.Identity) (reader, error)
}

// Withheld returns a function that reports whether a resource has a confidential collection in s. A user's right to all
// resources does not include confidential collections. The collections of s are cached for a second. The function fails
// if they cannot be read, or if its context ends first.
func Withheld(s Source) func(context.Context, schema.GroupResource) (bool, error) {
	gate := newGate()
	// gate guards withheld and read.
	var withheld map[schema.GroupResource]bool
	var read time.Time
	return func(ctx context.Context, r schema.GroupResource) (bool, error) {
		if err := gate.enter(ctx); err != nil {
			return false, err
		}
		defer gate.leave()
		if withheld == nil || time.Since(read) > catalogAge {
			all, err := s.collections(ctx)
			if err != nil {
				return false, err
			}
			withheld, read = map[schema.GroupResource]bool{}, time.Now()
			for _, d := range all {
				withheld[d.Identity.GroupResource()] = withheld[d.Identity.GroupResource()] || d.confidential
			}
		}
		return withheld[r], nil
	}
}

// gate is a mutex that can be acquired with a context, since its holder may wait for a disk.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g gate) leave() { <-g }

type described struct {
	entry.Info
	// confidential collections are served only with Options.Confidential.
	confidential bool
	// lacks is why objects or fields are missing; "" if the collection is complete.
	lacks string
	// expected is true if the collection is mirrored, but not stored yet. Only its identity is known.
	expected bool
	// unwatchable is true if this process updates the collection without a history of changes.
	unwatchable bool
}

type reader interface {
	Info(ctx context.Context) (entry.Info, error)
	Page(ctx context.Context, o store.PageOptions) (store.Page, error)
	CountKeys(ctx context.Context, prefix string) (int, error)
	// History returns the collection's recent changes, for watches and consistent lists. It is nil for a collection
	// without a history, and for a collection that cannot change unless it is superseded.
	History() *history.Window
	// superseded reports whether the reader no longer sees changes of the collection, because this process has opened
	// the collection for writing. opened is closed when the result may have changed; nil if it never changes.
	superseded() (yes bool, opened <-chan struct{})
}

// Store serves all collections of an open store. Collections that this process has open are served with uncommitted
// changes. A collection without a history (store.CollectionOptions.History, informer.Options.History) cannot be watched
// (405), and a list of it is cut off if the collection changes meanwhile. Other collections are served as stored.
func Store(st *store.Store) Source { return storeSource{store: st} }

// Mirror serves the collections of a store that this process mirrors, with a history. mirrored returns their current
// identities. Collections that an earlier process left in the file are absent, since they are no longer updated. A
// collection that is not open yet returns 429, as if its first list had not ended.
func Mirror(st *store.Store, mirrored func() []entry.Identity) Source {
	return storeSource{store: st, mirrored: mirrored}
}

// current replaces the LastContact of each collection that this process updates, when collections are ranked. These
// collections then rank equally, and requests do not alternate between them. Clients see the true time.
var current = time.Unix(1<<40, 0)

type storeSource struct {
	store *store.Store
	// mirrored returns the identities of the served collections. If it is nil, all collections are served.
	mirrored func() []entry.Identity
}

func (s storeSource) served() map[entry.Identity]bool {
	if s.mirrored == nil {
		return nil
	}
	served := map[entry.Identity]bool{}
	for _, id := range s.mirrored() {
		if canonical, err := id.Canonical(); err == nil { // no stored collection has an invalid identity
			id = canonical
		}
		served[id] = true
	}
	return served
}

func (s storeSource) Documents(ctx context.Context) ([]string, error) { return s.store.Documents(ctx) }

func (s storeSource) Document(ctx context.Context, name string) ([]byte, error) {
	return s.store.Document(ctx, name)
}

func (s storeSource) collections(ctx context.Context) ([]described, error) {
	infos, err := s.store.Collections(ctx)
	var all []described
	served := s.served()
	missing := maps.Clone(served)
	for _, info := range infos {
		if served != nil && !served[info.Identity] {
			continue
		}
		delete(missing, info.Identity)
		o := s.store.Opened(info.Identity)
		if o != nil && o.History() != nil {
			info.LastContact = current
		}
		d := s.described(info)
		d.unwatchable = o != nil && o.History() == nil
		all = append(all, d)
	}
	for id := range missing {
		d := s.described(entry.Info{Identity: id})
		d.expected = true
		all = append(all, d)
	}
	return all, err
}

func (s storeSource) described(info entry.Info) described {
	c := snapshot.Collection{Identity: info.Identity, Sealed: s.store.Sealed(info)}
	return described{Info: info, confidential: c.Confidential() != ""}
}

func (s storeSource) open(ctx context.Context, id entry.Identity) (reader, error) {
	if c := s.store.Opened(id); c != nil {
		if c.History() == nil {
			return withoutHistory{c}, nil
		}
		return openCollection{c}, nil
	}
	if s.mirrored != nil {
		return nil, errNotListed(id)
	}
	v, err := s.store.View(ctx, id)
	return closedCollection{v, s.store, id}, err
}

// openCollection reads a collection that this process has open with a history.
type openCollection struct{ *store.Collection }

func (openCollection) superseded() (bool, <-chan struct{}) { return false, nil }

// withoutHistory reads a collection that this process has open without a history of changes. It cannot be watched.
type withoutHistory struct{ *store.Collection }

func (withoutHistory) superseded() (bool, <-chan struct{}) { return false, nil }

// closedCollection reads a collection that this process does not have open, as stored in the file. It is superseded
// once this process opens the collection.
type closedCollection struct {
	*store.View
	store *store.Store
	id    entry.Identity
}

func (closedCollection) History() *history.Window { return nil }

func (s closedCollection) superseded() (bool, <-chan struct{}) {
	opened := s.store.Openings()
	return s.store.Opened(s.id) != nil, opened
}

// Snapshot serves an open snapshot file. Watches stay open, but receive no events, since a snapshot does not change.
func Snapshot(f *snapshot.File) Source { return snapshotSource{f} }

type snapshotSource struct{ file *snapshot.File }

func (s snapshotSource) Documents(ctx context.Context) ([]string, error) {
	return s.file.Documents(ctx)
}

func (s snapshotSource) Document(ctx context.Context, name string) ([]byte, error) {
	return s.file.Document(ctx, name)
}

func (s snapshotSource) collections(context.Context) ([]described, error) {
	m := s.file.Manifest()
	var all []described
	for _, c := range m.Collections {
		d := described{Info: s.info(c), confidential: c.Confidential() != ""}
		switch {
		case len(c.Filtered) > 0:
			d.lacks = "the snapshot was filtered: " + strings.Join(c.Filtered, ", ")
		case len(c.Redacted) > 0:
			d.lacks = "the snapshot was redacted: " + strings.Join(c.Redacted, ", ")
		}
		all = append(all, d)
	}
	return all, nil
}

// info describes a snapshot's collection. Without a LastContact, it has the time of the snapshot.
func (s snapshotSource) info(c snapshot.Collection) entry.Info {
	info := c.Info()
	if info.LastContact.IsZero() {
		info.LastContact = s.file.Manifest().TakenAt
	}
	return info
}

func (s snapshotSource) open(_ context.Context, id entry.Identity) (reader, error) {
	for _, c := range s.file.Manifest().Collections {
		if c.Identity == id {
			return savedCollection{s.file, s.info(c)}, nil
		}
	}
	return nil, snapshot.ErrNoCollection
}

type savedCollection struct {
	file *snapshot.File
	info entry.Info
}

func (s savedCollection) Info(context.Context) (entry.Info, error) { return s.info, nil }

func (savedCollection) History() *history.Window { return nil }

func (savedCollection) superseded() (bool, <-chan struct{}) { return false, nil }

var errFull = errors.New("the page is full")

const (
	savedPageObjects = 500
	savedPageBytes   = 4 << 20
)

func (s savedCollection) Page(ctx context.Context, o store.PageOptions) (store.Page, error) {
	p, limit, most, size := store.Page{Info: s.info, Last: o.After}, savedPageObjects, savedPageBytes, 0
	if o.Limit > 0 {
		limit = min(limit, o.Limit)
	}
	if o.Bytes > 0 {
		most = min(most, o.Bytes)
	}
	err := s.file.RecordsAfter(ctx, s.info.Identity, o.After, o.Prefix, func(e entry.Entry) error {
		if len(p.Entries) == limit || size >= most {
			p.More = true
			return errFull
		}
		e.Payload = bytes.Clone(e.Payload) // the snapshot's reader reuses the memory of a block
		p.Entries, p.Last, size = append(p.Entries, e), e.Key, size+len(e.Payload)
		return nil
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return p, err
}

func (s savedCollection) CountKeys(ctx context.Context, prefix string) (n int, err error) {
	if prefix == "" {
		return s.info.Objects, nil
	}
	err = s.file.RecordsAfter(ctx, s.info.Identity, "", prefix, func(entry.Entry) error {
		n++
		return nil
	})
	return n, err
}
