package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// SaveOptions are those of Save, SaveStore and SaveServer. The zero value works.
type SaveOptions struct {
	// Recipients are who can read the snapshot; empty does not encrypt it.
	Recipients []age.Recipient
	// Secrets has Secrets, and whatever else the store seals, or the one that a snapshot was taken from, written to a
	// snapshot that is not encrypted. Default: they are left out of it, but for Secrets that Redaction.Secrets redacts.
	Secrets bool
	// SelectOptions say what is left out besides.
	SelectOptions
	// Header is what the snapshot says about itself. What is not given is that of another snapshot that is saved, and the
	// ServerVersion that a store knows; else TakenAt is now, and ClusterID that of all collections if they are of one
	// cluster. Filter and Redaction are set by what is saved, and LeftOut begins with what is given.
	Header Header
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
	// Refused are the collections that a live server did not list (Listing.Optional): in the snapshot they are not
	// Complete.
	Refused []Refused
	// LeftOut says which collections are not in the snapshot, and why, one an entry: those of Header.LeftOut, and Secrets,
	// if it is not encrypted.
	LeftOut []string
}

// Save writes a snapshot of a Source that nobody changes to the file at path: of another snapshot, or of a store that
// is open for reading only (StoreSource).
//
// The file at path is replaced in one step, once the new one is on the disk, unless it is a store (store.ErrExists);
// its mode is 0600. What a save that was killed has left beside it (path.new-*) the next one removes.
func Save(ctx context.Context, src Source, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(w io.Writer, _ string) (Saved, error) { return save(ctx, src, w, o) })
}

// SaveStore is Save of a store that is open, in this process. It is taken hot: the store's file is copied as it is at
// one moment, and the snapshot is made of the copy, so each collection is exactly at its resourceVersion, and nobody
// who reads or writes waits. What is pending is committed before, as far as it can be.
//
// The copy is beside the store (store.ErrNoSpace if there is no room for it) and has no name while it is read. Of a
// process that is killed while it is made the next open of the store for writing removes it.
func SaveStore(ctx context.Context, st *store.Store, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(w io.Writer, _ string) (Saved, error) { return SaveStoreTo(ctx, st, w, o) })
}

// SaveStoreTo is SaveStore for a stream, which is neither closed nor synced. What was written is no snapshot if there
// is an error. SaveStream makes a file of it.
func SaveStoreTo(ctx context.Context, st *store.Store, w io.Writer, o SaveOptions) (Saved, error) {
	name, err := st.CopyFile(ctx)
	if err != nil {
		return Saved{}, fmt.Errorf("save: the copy to save from: %w", err)
	}
	copied, err := st.OpenCopy(ctx, name)
	// where a file can be removed that is open: then nothing is left, whenever this process dies
	removed := os.Remove(name)
	if err != nil {
		return Saved{}, errors.Join(fmt.Errorf("save: the copy to save from: %w", err), removed)
	}
	saved, err := save(ctx, StoreSource(copied), w, o)
	err = errors.Join(err, copied.Close())
	if removed != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return saved, err
}

// SaveStream is Save of the snapshot that comes from a stream, which is not encrypted: what SaveStoreTo has written. It
// is kept in a temporary file until all of it is there, beside path, encrypted with a key that is never stored. All
// that the stream has is saved: Secrets and SelectOptions are for who writes it.
func SaveStream(ctx context.Context, in io.Reader, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(w io.Writer, target string) (Saved, error) {
		sp, err := newSpool(target)
		if err != nil {
			return Saved{}, fmt.Errorf("save: %w", err)
		}
		defer sp.close()
		if _, err := io.Copy(sp, in); err != nil {
			return Saved{}, fmt.Errorf("save: %w", err)
		}
		f, err := sp.open()
		if err != nil {
			return Saved{}, fmt.Errorf("save: %w", err)
		}
		o.SelectOptions, o.Secrets = SelectOptions{}, true
		return save(ctx, f, w, o)
	})
}
