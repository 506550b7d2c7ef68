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

// SaveOptions are those of Save, SaveStore and SaveServer. The zero value works.
type SaveOptions struct {
	// Recipients can read the snapshot, which is encrypted for them. Empty: it is not encrypted.
	Recipients []age.Recipient
	// SigningKey signs the snapshot, so that OpenOptions.SignedBy can verify from whom it is. Nil: it is not signed.
	SigningKey *minisign.PrivateKey
	// Secrets writes Secrets, and whatever else the store seals or sealed, even to a snapshot that is not encrypted.
	// Default: such a snapshot has none of them, except Secrets that Redaction.Secrets redacts.
	Secrets bool
	// SelectOptions leaves out more.
	SelectOptions
	// Header of the snapshot. Empty fields are taken from the Header of a snapshot that is saved, and the ServerVersion
	// from a store. Otherwise TakenAt is now, and ClusterID that of all collections if they are of one cluster. Filter and
	// Redaction are set by the save; LeftOut begins with the given entries.
	Header Header
	// Documents are what SaveServer saves of what the server says of itself, by name: README.md names them. Other saves
	// take the documents of the store or snapshot. May be nil.
	Documents map[string][]byte
	// KeepExisting makes a save to a path fail with fs.ErrExist if there is a file, even one that appears before the end.
	// Default: the file is replaced.
	KeepExisting bool
	// Accept is called with the result of a save to a path before the file gets its name. If it returns an error, the save
	// fails and leaves nothing. May be nil.
	Accept func(Saved) error
	// Progress is called with the progress. May be nil.
	Progress func(Progress)

	pageSize int64 // of a live server's lists, for tests; 0 is listPage
}

// Progress is the progress of a save or a restore. It is reported every 256 objects and at the end of each collection,
// by the goroutine that works.
type Progress struct {
	// Collection is the current collection; the zero value before the first and after the last.
	Collection entry.Identity
	// Objects and Bytes (of payloads) are done. TotalObjects is the expected total; 0 if unknown.
	Objects, TotalObjects int
	Bytes                 int64
}

// Saved is the result of a save.
type Saved struct {
	// Collections are as in the snapshot.
	Collections []Collection
	Objects     int
	// Bytes is the sum of the payloads, Size the size of the snapshot.
	Bytes int64
	Size  int64
	// Refused has the collections that a live server did not list (Listing.Optional). In the snapshot they are not
	// Complete.
	Refused []Refused
	// LeftOut has an entry for each collection that is not in the snapshot, with the reason: those of Header.LeftOut, and
	// Secrets if the snapshot is not encrypted. A document that cannot be read has one, too, which begins with "document
	// ".
	LeftOut []string
}

// leftOutDocument begins the entry of a document in Saved.LeftOut.
const leftOutDocument = "document "

// LeftOutCollections are the entries of LeftOut that are of collections.
func (s Saved) LeftOutCollections() []string { return collectionsOf(s.LeftOut) }

func collectionsOf(leftOut []string) []string {
	return slices.DeleteFunc(slices.Clone(leftOut), func(e string) bool { return strings.HasPrefix(e, leftOutDocument) })
}

// Save writes a snapshot of a Source to the file at path. The Source must not change meanwhile: use it for another
// snapshot, or a store that is open for reading only (StoreSource).
//
// The file at path is replaced in one step, once the new one is on the disk. If it is there and neither a snapshot nor
// empty, Save fails with fs.ErrExist. The new file's mode is 0600. The next save to path removes the unfinished files
// of killed ones (path.new-*).
func Save(ctx context.Context, src Source, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(f *os.File) (Saved, error) { return save(ctx, src, f, o) })
}

// SaveStore is Save for a store that this process has open. It commits dirty changes, as far as possible, copies the
// store's file as it is at one moment, and makes the snapshot of the copy (store.ErrNoSpace if there is no room for it
// beside the store). So each collection is exactly at its resourceVersion, and readers and writers do not wait.
func SaveStore(ctx context.Context, st *store.Store, path string, o SaveOptions) (Saved, error) {
	return saveAt(path, o, func(f *os.File) (Saved, error) { return SaveStoreTo(ctx, st, f, o) })
}

// SaveStoreTo is SaveStore to a stream, which it neither closes nor syncs. If it fails, the stream is not a snapshot.
// SaveStream makes a file of the stream.
func SaveStoreTo(ctx context.Context, st *store.Store, w io.Writer, o SaveOptions) (Saved, error) {
	name, err := st.CopyFile(ctx)
	if err != nil {
		return Saved{}, fmt.Errorf("save: the copy to save from: %w", err)
	}
	copied, err := st.OpenCopy(ctx, name)
	// If the system can remove an open file, nothing is left whenever this process dies.
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

// SaveStream is Save for a stream that SaveStoreTo has written without encryption. Until all of it has come it is kept
// in a temporary file beside path, encrypted with a key that is never stored. Everything in the stream is saved:
// Secrets and SelectOptions are for SaveStoreTo.
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
