package source

import (
	"context"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// Records returns the data of src as a snapshot.Source, for a new snapshot or a comparison: the records of a snapshot
// or store, or the entries of a running larder sync, which include collections that are kept in memory only.
func Records(src Source) snapshot.Source {
	switch src := src.(type) {
	case *Snapshot:
		return src.file
	case *File:
		return snapshot.StoreSource(src.store)
	}
	return &answers{src}
}

// Saved converts c to a snapshot.Collection with all fields that the snapshot's filters need.
func (c Collection) Saved() snapshot.Collection {
	mustRelist := c.MustRelist
	if mustRelist == "" && (len(c.LeftOut) > 0 || c.LeftOutMore) {
		mustRelist = snapshot.RelistLeftOut
	}
	return snapshot.Collection{
		Identity: c.Identity(), Attributes: entry.Attributes{Transform: c.Transform}, Resource: c.ResourceInfo(),
		ResourceVersion: c.ResourceVersion, Complete: c.Complete, MustRelist: mustRelist, LastContact: c.LastContact,
		Objects: c.Objects, Filtered: c.Filtered, Redacted: c.Redacted, Sealed: c.Sealed,
	}
}

// answers makes a Source a snapshot.Source that reads through the Source's Status and Entries.
type answers struct{ src Source }

func (a *answers) Collections(ctx context.Context) ([]snapshot.Collection, error) {
	st, err := a.src.Status(ctx)
	if err != nil {
		return nil, err
	}
	var all []snapshot.Collection
	for _, c := range st.Collections {
		all = append(all, c.Saved())
	}
	return all, nil
}

func (a *answers) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	return a.src.Entries(ctx, Query{Collection: id.ID()}, fn)
}
