package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// SaveOptions are those of SaveStore, SaveFile and SaveServer. The zero value works.
type SaveOptions struct {
	// Recipients are who can read the snapshot; empty does not encrypt it.
	Recipients []age.Recipient
	// Secrets has Secrets, and whatever else the store seals, or the one that a snapshot was taken from, written to a
	// snapshot that is not encrypted. Default: they are left out of it, but for Secrets that Redaction.Secrets redacts.
	Secrets bool
	// SelectOptions say what is left out besides.
	SelectOptions
	// Header is what the snapshot says about itself. TakenAt is now by default, ClusterID that of all collections if they
	// are of one cluster; Filter and Redaction are set by what is saved, and LeftOut begins with what is given.
	Header Header
	// Store are those that SaveFile opens the store with: LockTimeout, Logger and Encryption count.
	Store store.Options
	// KeepExisting has a save to a path fail with fs.ErrExist, at its end too, if another program has made a file there.
	// Default: it is replaced.
	KeepExisting bool
	// Accept is asked of what a save to a path has written, before the file gets its name: its error ends the save, and
	// nothing is left of it. May be nil.
	Accept func(Saved) error
	// Progress is told how far it is. May be nil.
	Progress func(Progress)

	pageSize int64 // of a live server's lists, for tests; 0 is listPage
}

// Progress is how far a save or a restore is. Who is told of it is called by the goroutine that works, every 256
// objects and at each collection's end.
type Progress struct {
	// Collection is what is at work; the zero value before the first, and after the last.
	Collection entry.Identity
	// Objects and Bytes of payloads are done. TotalObjects and TotalBytes are how many there will be, as far as that is
	// known: 0 is not known.
	Objects, TotalObjects int
	Bytes, TotalBytes     int64
}

// Saved is what a save has written.
type Saved struct {
	// Collections are as they are in the snapshot.
	Collections []Collection
	Objects     int
	// Bytes is the sum of the payloads, Size how long the snapshot is.
	Bytes int64
	Size  int64
	// Skipped is how many objects SelectOptions.SkipUnknown has left out.
	Skipped int
	// Refused are the collections that a live server did not list (Listing.Optional): in the snapshot they are not
	// Complete.
	Refused []Refused
	// LeftOut says which collections are not in the snapshot, and why, one an entry: those of Header.LeftOut, and Secrets,
	// if it is not encrypted.
	LeftOut []string
}

// SaveStore writes a snapshot of a store that is open, in this process, to the file at path. It is taken hot: the
// store's file is copied as it is at one moment, and the snapshot is made of the copy, so each collection is exactly at
// its resourceVersion, and nobody who reads or writes waits. What is pending is committed before, as far as it can be.
//
// The copy is beside the store, and where there is no room for it, beside path, but for a snapshot that is encrypted:
// that fails with store.ErrNoSpace then. It is gone at the end; of a process that is killed the next open of the store
// for writing, or the next save to path, removes it.
//
// The file at path is replaced in one step, once the new one is on the disk, unless it is a store (store.ErrExists);
// its mode is 0600. What a save that was killed has left beside it (path.new-*) the next one removes.
func SaveStore(ctx context.Context, st *store.Store, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(w io.Writer, target string) (Saved, error) { return saveCopy(ctx, st, target, w, o) })
}

// SaveStoreTo is SaveStore for a stream, which is neither closed nor synced. What was written is no snapshot if there
// is an error.
func SaveStoreTo(ctx context.Context, st *store.Store, w io.Writer, o SaveOptions) (Saved, error) {
	return saveCopy(ctx, st, "", w, o)
}

// SaveFile writes a snapshot of the store at storePath, which no process may have open for writing (store.ErrLocked),
// to the file at path, as SaveStore does.
func SaveFile(ctx context.Context, storePath, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(w io.Writer, _ string) (Saved, error) { return SaveFileTo(ctx, storePath, w, o) })
}

// SaveFileTo is SaveFile for a stream; see SaveStoreTo.
func SaveFileTo(ctx context.Context, storePath string, w io.Writer, o SaveOptions) (Saved, error) {
	st, err := openToSave(ctx, storePath, o)
	if err != nil {
		return Saved{}, err
	}
	saved, err := saveFrom(ctx, st, w, o)
	return saved, errors.Join(err, st.Close())
}

func openToSave(ctx context.Context, path string, o SaveOptions) (*store.Store, error) {
	so := o.Store
	so.ReadOnly = true
	return store.OpenContext(ctx, path, so)
}

// saveCopy saves a copy of the store, which it makes beside the store, or else, if that is not empty, beside path.
func saveCopy(ctx context.Context, st *store.Store, path string, w io.Writer, o SaveOptions) (Saved, error) {
	name, err := copyToSave(ctx, st, path, len(o.Recipients) > 0)
	if err != nil {
		return Saved{}, err
	}
	copied, err := st.OpenCopy(ctx, name)
	// where a file can be removed that is open: then nothing is left, whenever this process dies
	removed := os.Remove(name)
	if err != nil {
		return Saved{}, errors.Join(fmt.Errorf("save: the copy to save from: %w", err), removed)
	}
	saved, err := saveFrom(ctx, copied, w, o)
	err = errors.Join(err, copied.Close())
	if removed != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return saved, err
}

// copied is a store that can be copied.
type copied interface {
	CopyFile(ctx context.Context, base string) (name string, err error)
}

// copyToSave makes the copy that a snapshot is made of, and returns its name.
func copyToSave(ctx context.Context, st copied, path string, encrypted bool) (name string, err error) {
	name, err = st.CopyFile(ctx, "")
	switch {
	case !errors.Is(err, store.ErrNoSpace) || path == "":
	// beside path, which may be another medium, is no place for what is to be there in an encrypted file only
	case encrypted:
		err = fmt.Errorf("%w; an encrypted snapshot is made of a copy beside the store only: make room beside the store", err)
	default:
		var again error
		if name, again = st.CopyFile(ctx, path); again == nil {
			err = nil
		} else {
			err = errors.Join(err, again)
		}
	}
	if err != nil {
		return "", fmt.Errorf("save: the copy to save from: %w", err)
	}
	return name, nil
}

// saveFrom writes a snapshot of a store that nobody writes.
func saveFrom(ctx context.Context, st *store.Store, w io.Writer, o SaveOptions) (Saved, error) {
	if o.Header.ServerVersion == "" {
		if version, err := st.Document(ctx, store.DocumentServerVersion); err == nil { // else it is unknown
			o.Header.ServerVersion = string(version)
		}
	}
	src := &storeSource{st: st, still: true}
	return save(ctx, src, w, o)
}

// now is when a snapshot without Header.TakenAt was taken.
func (o SaveOptions) now() time.Time {
	if o.Header.TakenAt.IsZero() {
		return time.Now().UTC().Round(time.Second)
	}
	return o.Header.TakenAt
}
