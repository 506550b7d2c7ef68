package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// RestoreOptions are those of Restore. The zero value works for what is not encrypted.
type RestoreOptions struct {
	// Identities are tried in turn if the snapshot is encrypted.
	Identities []age.Identity
	// Secrets has the Secrets of the snapshot, and whatever else the store that it was saved from seals, written to a
	// store that does not seal them. Default: they are left out of it, but for Secrets that Redaction.Secrets redacts. A
	// store with keys seals what the other one did.
	Secrets bool
	// SelectOptions say what is left out besides.
	SelectOptions
	// Import are the options of the store that is made.
	Import store.ImportOptions
	// Progress is told how far it is. May be nil.
	Progress func(Progress)
}

// Restored is what Restore has written.
type Restored struct {
	// Collections are as they are in the store; those with MustRelist set will be listed before they are synced.
	Collections []Collection
	Objects     int
	// Bytes is the sum of the payloads.
	Bytes int64
	// LeftOut says which collections are in the snapshot and not in the store, and why, one an entry.
	LeftOut []string
}

// redactedTransform is what Attributes.Transform of a collection begins with that has been redacted. No program has
// such a transform, so the list that has to come writes every object anew, those too whose UID and resourceVersion are
// the server's.
const redactedTransform = "redacted: "

// Restore makes a store at storePath of the snapshot at path. Each collection resumes its watch from the
// resourceVersion of the snapshot, with no list, where the server still has the history; those of which objects or
// parts are missing, or redacted, are listed first (MustRelist), and are not Complete: no informer serves them before.
//
// It refuses to replace anything (store.ErrExists), and holds storePath until it ends: who opens a store there
// meanwhile gets store.ErrLocked. A snapshot that is damaged (ErrDamaged), or is none, leaves nothing. If the process
// dies the next restore to storePath, or open for writing, removes what is left.
func Restore(ctx context.Context, path, storePath string, o RestoreOptions) (Restored, error) {
	f, err := Open(path, OpenOptions{Identities: o.Identities})
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	src, err := Select(f, o.SelectOptions)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	i, err := store.NewImport(ctx, storePath, o.Import)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	j := &restoring{o: o, src: src, i: i, progress: progress{tell: o.Progress}}
	if err = j.all(ctx); err == nil {
		err = i.Commit(ctx)
	}
	if err := errors.Join(err, i.Abort()); err != nil {
		return Restored{}, fmt.Errorf("restore to %s: %w", storePath, err)
	}
	j.restored.Objects, j.restored.Bytes = j.now.Objects, j.now.Bytes
	return j.restored, nil
}

// restoring is one restore at work.
type restoring struct {
	o        RestoreOptions
	src      Source
	i        *store.Import
	restored Restored
	progress
}

// all takes in the collections of src.
func (j *restoring) all(ctx context.Context) error {
	all, err := j.src.Collections(ctx)
	if err != nil {
		return err
	}
	keep := all[:0]
	for _, c := range all {
		if why := j.leavesOut(c); why != "" {
			j.restored.LeftOut = append(j.restored.LeftOut, c.Identity.String()+": "+why)
			continue
		}
		keep = append(keep, c)
		j.now.TotalObjects += c.Objects
	}
	j.report()
	for _, c := range keep {
		if err := j.collection(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// leavesOut returns why a collection is not restored, or "".
func (j *restoring) leavesOut(c Collection) string {
	if j.o.Secrets || c.Sealed && j.i.CanSeal() || j.i.Seals(c.Identity.GroupResource()) {
		return ""
	}
	if why := c.Confidential(); why != "" {
		return why + ", the store does not seal them, and they were not asked for in plain text"
	}
	return ""
}

// collection takes in one. One that has a part of the objects, or other bodies than the server, is not complete: an
// informer that starts from the disk would take them for all, and for what they are.
func (j *restoring) collection(ctx context.Context, c Collection) error {
	if len(c.Redacted) > 0 && !strings.HasPrefix(c.Attributes.Transform, redactedTransform) {
		c.Attributes.Transform = redactedTransform + c.Attributes.Transform
	}
	err := j.i.Begin(ctx, store.ImportCollection{Identity: c.Identity, Attributes: c.Attributes, Resource: c.Resource,
		Seal: c.Sealed && j.i.CanSeal()})
	if err != nil {
		return err
	}
	j.now.Collection = c.Identity
	err = j.src.Records(ctx, c.Identity, func(r entry.Entry) error {
		j.done(r)
		return j.i.Add(ctx, r)
	})
	if err != nil {
		return err
	}
	c.Complete = c.Complete && len(c.Filtered) == 0 && !redacted(c)
	if redacted(c) && c.MustRelist == "" { // of a store that a redacted one was restored to
		c.MustRelist = "objects were redacted"
	}
	c.Objects, err = j.i.End(ctx, store.ImportState{ResourceVersion: c.ResourceVersion, Complete: c.Complete,
		MustRelist: c.MustRelist, LastContact: c.LastContact})
	if err != nil {
		return err
	}
	j.restored.Collections = append(j.restored.Collections, c)
	j.report()
	return nil
}

// redacted reports whether bodies of a collection are not what a server has, now or in the store that it was saved
// from.
func redacted(c Collection) bool {
	return len(c.Redacted) > 0 || strings.HasPrefix(c.Attributes.Transform, redactedTransform)
}
