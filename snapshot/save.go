package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"aead.dev/minisign"
	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// SaveOptions are the options of Save, SaveStore and SaveServer. The zero value works.
type SaveOptions struct {
	// Recipients are the age recipients for whom the snapshot is encrypted. Empty: it is not encrypted.
	Recipients []age.Recipient
	// SigningKey signs the snapshot, for verification by OpenOptions.SignedBy. Nil: it is not signed.
	SigningKey *minisign.PrivateKey
	// Secrets saves Secrets and other collections that the store seals even to an unencrypted snapshot. Default: an
	// unencrypted snapshot has only Secrets redacted by Redaction.Secrets.
	Secrets bool
	SelectOptions
	// Header describes the snapshot. Empty fields are copied from the Header of a source snapshot, and ServerVersion from
	// a store. Otherwise TakenAt is now, and ClusterID is the id that all collections share. The save sets Filter and
	// Redaction; LeftOut begins with the given entries.
	Header Header
	// Documents are the documents about the server that SaveServer saves, by name: README.md names them. Other saves copy
	// the documents of the store or snapshot. May be nil.
	Documents map[string][]byte
	// KeepExisting makes a save to a path fail with fs.ErrExist if a file is there or appears. Default: it is replaced.
	KeepExisting bool
	// Accept receives the result of a save to a path before the file gets its name. Its error fails the save. May be nil.
	Accept   func(Saved) error
	Progress func(Progress)

	pageSize int64 // number of objects in a page of a live server's list, for tests; 0 means the constant listPage
}

// Progress is the progress of a save or restore, which reports it every 256 objects and after each collection.
type Progress struct {
	// Collection is the collection that is being saved or restored; zero before the first and after the last collection.
	Collection entry.Identity
	// Objects and Bytes count the objects and their payload bytes so far. TotalObjects is the expected number of objects;
	// 0 if unknown.
	Objects, TotalObjects int
	Bytes                 int64
}

type Saved struct {
	Collections []Collection
	Objects     int
	// Bytes is the sum of the sizes of all saved payloads. Size is the size of the snapshot file.
	Bytes int64
	Size  int64
	// Refused has the collections that a live server refused to list (Listing.Optional). In the snapshot these collections
	// are empty and not Complete.
	Refused []Refused
	// LeftOut has an entry for each collection that was not saved, with the reason: the entries of Header.LeftOut, and
	// Secrets of an unencrypted snapshot. An unreadable document has an entry that begins with "document ".
	LeftOut []string
}

// leftOutDocument begins an entry in LeftOut that is about a document, not a collection.
const leftOutDocument = "document "

// LeftOutCollections returns the entries of LeftOut that are about collections, without those about documents.
func (s Saved) LeftOutCollections() []string { return collectionsOf(s.LeftOut) }

func collectionsOf(leftOut []string) []string {
	return slices.DeleteFunc(slices.Clone(leftOut), func(e string) bool { return strings.HasPrefix(e, leftOutDocument) })
}

// Save writes a snapshot of a Source to the file at path. The Source must not change meanwhile: use Save for another
// snapshot, or for a store that is open for reading only (StoreSource).
//
// The file at path is replaced in one step, once the new file is synced. Save fails with fs.ErrExist if the old file is
// neither a snapshot nor empty. The new file's mode is 0600. The next save to path removes the unfinished files of
// killed processes (path.new-*).
func Save(ctx context.Context, src Source, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(f *os.File) (Saved, error) { return save(ctx, src, f, o) })
}

// SaveStore is Save for a store that this process has open. It commits dirty changes as far as possible, copies the
// store's file at one moment, and saves the copy. It fails with store.ErrNoSpace if the copy does not fit beside the
// store. Each collection is saved exactly at its resourceVersion. Readers and writers do not wait.
func SaveStore(ctx context.Context, st *store.Store, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(f *os.File) (Saved, error) { return SaveStoreTo(ctx, st, f, o) })
}

// SaveStoreTo is SaveStore to a stream, which it does not close or sync. After an error the stream is no snapshot.
func SaveStoreTo(ctx context.Context, st *store.Store, w io.Writer, o SaveOptions) (Saved, error) {
	name, err := st.CopyFile(ctx)
	if err != nil {
		return Saved{}, fmt.Errorf("save: the copy to save from: %w", err)
	}
	copied, err := st.OpenCopy(ctx, name)
	// Where the system can remove an open file, the copy of the store vanishes even if this process dies.
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

// SaveStream is Save for a stream that SaveStoreTo has written without encryption. Until the stream ends, it is kept in
// a temporary file beside path, encrypted with a key that is never stored. Everything in the stream is saved:
// SaveStream ignores Secrets and SelectOptions, which are for SaveStoreTo.
func SaveStream(ctx context.Context, in io.Reader, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(out *os.File) (Saved, error) {
		sp, err := newSpool(out.Name())
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
		return save(ctx, f, out, o)
	})
}
