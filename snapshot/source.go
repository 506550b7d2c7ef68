package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/store"
)

// Source is something to read collections from: a File, a store (StoreSource), the result of Select. One that has the
// methods Documents and Document of a File, too, has what it knows of its API server saved.
type Source interface {
	// Collections returns the collections, in any order. If a collection has Objects, its Resource.Namespaced must agree
	// with their keys: the program that stored them may not have known it.
	Collections(ctx context.Context) ([]Collection, error)
	// Records calls fn with the records of a collection in the byte order of their keys. A payload is valid until fn
	// returns. If fn returns an error, Records returns it. If there is no such collection, it fails with ErrNoCollection.
	Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error
}

// describer is a Source that also has a Header.
type describer interface {
	describe(ctx context.Context) Header
}

// describe implements describer.
func (f *File) describe(context.Context) Header { return f.manifest.Header }

// StoreSource returns the committed collections of a store as a Source. If the store is open for reading only, as the
// copy that SaveStore makes, each collection is exactly at its ResourceVersion. If the store is written meanwhile, each
// page of records is of one moment: a collection may have newer objects than its ResourceVersion, and lack others,
// which a watch from there brings. No transaction is open between pages.
func StoreSource(st *store.Store) Source { return storeSource{st} }

type storeSource struct{ st *store.Store }

// Collections implements Source.
func (s storeSource) Collections(ctx context.Context) ([]Collection, error) {
	infos, err := s.st.Collections(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Collection, len(infos))
	for i, info := range infos {
		all[i] = Collection{
			Identity: info.Identity, Attributes: info.Attributes, Resource: info.Resource, ResourceVersion: info.ResourceVersion,
			Complete: info.Complete, MustRelist: mustRelist(info), LastContact: info.LastContact, Objects: info.Objects,
			Sealed: s.st.Sealed(info),
		}
	}
	slices.SortFunc(all, func(a, b Collection) int { return strings.Compare(a.Identity.String(), b.Identity.String()) })
	return all, nil
}

// RelistLeftOut is Collection.MustRelist of a copy of a collection that lacks objects which could not be stored.
const RelistLeftOut = "objects were left out of the store"

// mustRelist returns why a copy of the collection cannot be resumed; "" if it can. A copy has no list of the objects
// that were left out.
func mustRelist(info entry.Info) string {
	if info.MustRelist == "" && (len(info.LeftOut) > 0 || info.LeftOutMore) {
		return RelistLeftOut
	}
	return info.MustRelist
}

// Records implements Source.
func (s storeSource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	err := s.st.Records(ctx, id, "", fn)
	if errors.Is(err, store.ErrNoCollection) {
		return fmt.Errorf("%s: %w", id, ErrNoCollection)
	}
	return err
}

// describe implements describer.
func (s storeSource) describe(ctx context.Context) (h Header) {
	// What cannot be read is unknown.
	if version, err := facts.ReadVersion(ctx, s); err == nil && version != nil {
		h.ServerVersion = version.GitVersion
	}
	return h
}
