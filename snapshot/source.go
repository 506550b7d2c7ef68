package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// Source is what collections can be read from: a File, a store (StoreSource), what Select leaves of another one.
type Source interface {
	// Collections returns what there is, in any order. Resource.Namespaced of those that have Objects must be as their
	// keys are: what has stored them may not have known.
	Collections(ctx context.Context) ([]Collection, error)
	// Records calls fn with the records of a collection in the byte order of their keys. A payload is valid until fn
	// returns. An error of fn ends it and is returned. An identity that is not there fails with ErrNoCollection.
	Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error
}

// describer is a Source that knows more of what it is of than its collections.
type describer interface {
	describe(ctx context.Context) Header
}

// describe implements describer.
func (f *File) describe(context.Context) Header { return f.manifest.Header }

// StoreSource returns the collections of a store as a Source: what has been committed. Of a store that is open for
// reading only, as of the copy that SaveStore makes, each is exactly at its ResourceVersion. Of one that is written
// meanwhile each page of records is of one moment: a collection may have objects of after its ResourceVersion, and lack
// others, and a watch from there makes up for that. No transaction is open between pages.
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
			Sealed: info.Sealed || s.st.Seals(info.Identity.GroupResource()),
		}
	}
	slices.SortFunc(all, func(a, b Collection) int { return strings.Compare(a.Identity.String(), b.Identity.String()) })
	return all, nil
}

// mustRelist is why a copy of the collection cannot be resumed: the record of what was left out stays with the store.
func mustRelist(info store.Info) string {
	if info.MustRelist == "" && (len(info.LeftOut) > 0 || info.LeftOutMore) {
		return "objects were left out of the store"
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
	if version, err := s.st.Document(ctx, store.DocumentServerVersion); err == nil { // else it is unknown
		h.ServerVersion = string(version)
	}
	return h
}
