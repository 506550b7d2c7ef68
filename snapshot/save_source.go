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

// StoreSource returns the collections of a store as a Source: what has been committed, each page of records as of one
// moment. No transaction is open between pages, so a store that is written meanwhile waits for nothing, and a
// collection is not of one moment: it may have objects of after its ResourceVersion, and lack others. A watch from
// there makes up for that; for a snapshot that is exactly at its resourceVersion there is SaveStore.
func StoreSource(st *store.Store) Source { return &storeSource{st: st} }

type storeSource struct {
	st *store.Store
	// still: nobody writes the store, so that it must have as many objects as it counts.
	still bool
	// counts is how many objects the store says that each collection has.
	counts map[string]int
}

// Collections implements Source.
func (s *storeSource) Collections(ctx context.Context) ([]Collection, error) {
	infos, err := s.st.Collections(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Collection, len(infos))
	s.counts = map[string]int{}
	for i, info := range infos {
		s.counts[info.Identity.ID()] = info.Objects
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
func (s *storeSource) Records(ctx context.Context, id entry.Identity, after string, fn func(entry.Entry) error) error {
	n := 0
	err := s.st.Records(ctx, id, after, func(r entry.Entry) error {
		n++
		return fn(r)
	})
	if want := s.counts[id.ID()]; err == nil && s.still && after == "" && n != want {
		err = fmt.Errorf("%s: the store counts %d objects and has %d: %w", id, want, n, entry.ErrDamaged)
	}
	if errors.Is(err, store.ErrNoCollection) {
		return fmt.Errorf("%s: %w", id, ErrNoCollection)
	}
	return err
}

// settler is a Source that knows the state of a collection once its records have been read.
type settler interface {
	settle(c Collection) State
}
