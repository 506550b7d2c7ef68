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

// Source provides collections: a File, a store (StoreSource), the result of Select. A save also copies the documents of
// a Source with the methods Documents and Document of a File.
type Source interface {
	// Collections returns the collections, in any order. Resource.Namespaced must agree with the keys if the collection
	// has Objects. Without objects it may be wrong: the program that stored the collection may not have known the scope.
	Collections(ctx context.Context) ([]Collection, error)
	// Records calls fn with the records of a collection in the byte order of their keys. A payload is valid until fn
	// returns. Records returns an error of fn, and ErrNoCollection if there is no such collection.
	Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error
}

type describer interface {
	describe(ctx context.Context) Header
}

func (f *File) describe(context.Context) Header { return f.manifest.Header }

// StoreSource returns the committed collections of a store as a Source. In a store that is open for reading only, such
// as the copy of SaveStore, each collection is exactly at its ResourceVersion. In a store that is written meanwhile,
// only each page of records is one state: a collection may have newer objects than its ResourceVersion, and lack
// others. A watch from the ResourceVersion delivers them. No transaction is open between pages.
func StoreSource(st *store.Store) Source { return storeSource{st} }

type storeSource struct{ st *store.Store }

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

// RelistLeftOut is the MustRelist of a copied collection whose store left out objects, as after an encoding error.
const RelistLeftOut = "objects were left out of the store"

// mustRelist returns the reason why a copy of the collection cannot be resumed: a copy lacks Info.LeftOut.
func mustRelist(info entry.Info) string {
	if info.MustRelist == "" && (len(info.LeftOut) > 0 || info.LeftOutMore) {
		return RelistLeftOut
	}
	return info.MustRelist
}

func (s storeSource) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	err := s.st.Records(ctx, id, "", fn)
	if errors.Is(err, store.ErrNoCollection) {
		return fmt.Errorf("%s: %w", id, ErrNoCollection)
	}
	return err
}

func (s storeSource) describe(ctx context.Context) (h Header) {
	// The server's version is optional: if it cannot be read, it stays empty.
	if version, err := facts.ReadVersion(ctx, s); err == nil && version != nil {
		h.ServerVersion = version.GitVersion
	}
	return h
}
