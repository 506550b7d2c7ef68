package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"aead.dev/minisign"
	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/store"
)

// RestoreOptions are the options of Restore. The zero value works if the snapshot is not encrypted.
type RestoreOptions struct {
	Identities []age.Identity
	// SignedBy has public keys, one of which must have signed the snapshot (OpenOptions.SignedBy). Default: no signature
	// is needed, and the keys of service accounts are not restored. Otherwise the author of a snapshot could sign tokens
	// that the new store accepts.
	SignedBy []minisign.PublicKey
	// Secrets restores Secrets and other sealed collections even to a store that does not seal them. Default: such a
	// store gets neither, except Secrets whose values the snapshot has redacted. A store with keys seals the kinds that
	// the saved store sealed.
	Secrets  bool
	Import   store.ImportOptions
	Progress func(Progress)
}

// Restored is the result of Restore.
type Restored struct {
	// Collections are the restored collections. An informer lists a collection with MustRelist set before it is synced.
	Collections []Collection
	Objects     int
	// Bytes is the sum of the sizes of all restored payloads.
	Bytes int64
	// LeftOut has an entry for each collection that was not restored, with the reason. The keys of service accounts, if
	// not restored, have entries that begin with "document ".
	LeftOut []string
}

// LeftOutCollections returns the entries of LeftOut that are about collections, without those about documents.
func (r Restored) LeftOutCollections() []string { return collectionsOf(r.LeftOut) }

// redactedTransform is the prefix of the stored transform version (Attributes.Transform) of a redacted collection. No
// program uses this transform. So the next list rewrites every object, even an object with the server's UID and
// resourceVersion.
const redactedTransform = "redacted: "

// Restore creates a store at storePath from the snapshot at path. Each collection resumes its watch from the snapshot's
// resourceVersion, without a list, if the server still has the history. Filtered and redacted collections are not
// Complete: they are listed first (MustRelist), and no informer serves them before.
//
// Restore replaces no file (store.ErrExists). It holds the lock of storePath until it returns: meanwhile Open fails
// with store.ErrLocked. A failed restore leaves nothing. If the process dies, the next restore to storePath, or open
// for writing, removes the unfinished file. To restore a part of a snapshot, Save this part of its File and restore the
// result.
func Restore(ctx context.Context, path, storePath string, o RestoreOptions) (Restored, error) {
	f, err := Open(path, OpenOptions{Identities: o.Identities, SignedBy: o.SignedBy})
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = f.Close() }() // the file was opened for reading, so an error of Close does not matter
	i, err := store.NewImport(ctx, storePath, o.Import)
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	j := &restoring{o: o, src: f, i: i, progress: progress{notify: o.Progress}}
	if err = j.all(ctx); err == nil {
		err = i.Commit(ctx)
	}
	if err := errors.Join(err, i.Abort()); err != nil {
		return Restored{}, fmt.Errorf("restore to %s: %w", storePath, err)
	}
	j.restored.Objects, j.restored.Bytes = j.now.Objects, j.now.Bytes
	return j.restored, nil
}

type restoring struct {
	o        RestoreOptions
	src      *File
	i        *store.Import
	restored Restored
	progress
}

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
	for _, name := range j.src.manifest.Documents {
		if facts.IsKeys(name) && len(j.o.SignedBy) == 0 {
			j.restored.LeftOut = append(j.restored.LeftOut, leftOutDocument+name+
				": whoever made the snapshot could sign tokens with it, and no signature was asked for")
			continue
		}
		data, err := j.src.Document(ctx, name)
		if err == nil {
			err = j.i.PutDocument(ctx, name, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *restoring) leavesOut(c Collection) string {
	if j.o.Secrets || c.Sealed && j.i.CanSeal() || j.i.Seals(c.Identity.GroupResource()) {
		return ""
	}
	if why := c.Confidential(); why != "" {
		return why + ", the store does not seal them, and they were not asked for in plain text"
	}
	return ""
}

// collection imports one collection. A filtered or redacted collection is marked incomplete. Otherwise an informer that
// starts from disk would serve its objects as the server's.
func (j *restoring) collection(ctx context.Context, c Collection) error {
	if len(c.Redacted) > 0 && !strings.HasPrefix(c.Attributes.Transform, redactedTransform) {
		c.Attributes.Transform = redactedTransform + c.Attributes.Transform
	}
	// RequestedAs has the arguments of the saved store's sync. A sync of the new store must drop only collections that its
	// own arguments have named.
	c.Resource.RequestedAs = nil
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
	// The snapshot may come from a store that was restored from a redacted snapshot.
	if redacted(c) && c.MustRelist == "" {
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

// redacted reports whether a redaction has changed objects, in this snapshot or before an earlier restore.
func redacted(c Collection) bool {
	return len(c.Redacted) > 0 || strings.HasPrefix(c.Attributes.Transform, redactedTransform)
}
