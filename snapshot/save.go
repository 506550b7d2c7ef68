package snapshot

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
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

// Saved is the result of a save.
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

// saveAt calls write with a new temporary file, and renames that file to path. If several processes save to one path at
// the same time, the last file stays; with KeepExisting the first one stays.
func saveAt(path string, o SaveOptions, write func(*os.File) (Saved, error)) (saved Saved, err error) {
	written := false
	may := func(target string) error {
		err := Replaceable(target)
		if _, there := os.Lstat(target); err == nil && o.KeepExisting && written && there == nil {
			err = fmt.Errorf("%s has been made meanwhile, and is kept: %w", target, fs.ErrExist)
		}
		return err
	}
	err = base.WriteFile(path, base.WriteOptions{May: may}, func(f *os.File) error {
		if saved, err = write(f); err == nil && o.Accept != nil {
			err = o.Accept(saved)
		}
		written = true
		return err
	})
	switch {
	case errors.Is(err, base.ErrNotSynced):
		return saved, fmt.Errorf("save to %s: the snapshot is there, but %w", path, err)
	case err != nil:
		return Saved{}, fmt.Errorf("save to %s: %w", path, err)
	}
	return saved, nil
}

// Replaceable returns an error if path has anything but a snapshot or an empty file: a save replaces no other file.
func Replaceable(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil
	}
	is, err := Is(path)
	if err == nil && !is {
		err = fmt.Errorf("it is there and no snapshot, and nothing else is replaced; choose another name: %w", fs.ErrExist)
	}
	return err
}

const progressEvery = 256

type saving struct {
	o        SaveOptions
	src      Source
	of       Header // Header of the source snapshot; zero if src is not a snapshot or store
	selected Source
	saved    Saved
	progress
}

func save(ctx context.Context, src Source, w io.Writer, o SaveOptions) (Saved, error) {
	j := &saving{o: o, src: src, progress: progress{notify: o.Progress}}
	j.saved.LeftOut = slices.Clone(o.Header.LeftOut)
	if d, ok := src.(describer); ok {
		j.of = d.describe(ctx)
		// If the filter names resources, entries in LeftOut may be about resources that it excludes.
		if len(o.Filter.Resources) == 0 {
			j.saved.LeftOut = append(j.saved.LeftOut, j.of.LeftOut...)
		}
	}
	var err error
	if j.selected, err = Select(src, o.SelectOptions); err == nil {
		err = j.run(ctx, w)
	}
	if err != nil {
		return Saved{}, fmt.Errorf("save: %w", err)
	}
	return j.saved, nil
}

func (j *saving) run(ctx context.Context, w io.Writer) error {
	all, err := j.selected.Collections(ctx)
	if err != nil {
		return err
	}
	keep := all[:0]
	for _, c := range all {
		if why := j.leavesOut(c); why != "" {
			j.saved.LeftOut = append(j.saved.LeftOut, c.Identity.String()+": "+why)
			continue
		}
		keep = append(keep, c)
		j.now.TotalObjects += c.Objects
	}
	counted := &countingWriter{w: w}
	out, err := newWriter(counted, j.header(keep), writerOptions{Recipients: j.o.Recipients, Key: j.o.SigningKey})
	if err != nil {
		return err
	}
	j.report()
	for _, c := range keep {
		if err := j.collection(ctx, out, c); err != nil {
			return err
		}
	}
	if err := j.documents(ctx, out, keep); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	j.saved.Objects, j.saved.Bytes, j.saved.Size = j.now.Objects, j.now.Bytes, counted.n
	return nil
}

// header completes empty fields of SaveOptions.Header from the source and its collections.
func (j *saving) header(all []Collection) Header {
	h := j.o.Header
	h.LeftOut, h.Filter, h.Redaction = j.saved.LeftOut, j.of.Filter, j.of.Redaction
	if !j.o.Filter.Empty() {
		h.Filter = &j.o.Filter
	}
	if !j.o.Redaction.Empty() {
		h.Redaction = &j.o.Redaction
	}
	h.Larder = cmp.Or(h.Larder, j.of.Larder)
	h.ServerVersion = cmp.Or(h.ServerVersion, j.of.ServerVersion)
	h.ClusterID = cmp.Or(h.ClusterID, j.of.ClusterID, clusterOf(all))
	for _, at := range []time.Time{j.of.TakenAt, time.Now().UTC().Round(time.Second)} {
		if h.TakenAt.IsZero() {
			h.TakenAt = at
		}
	}
	return h
}

// clusterOf returns the cluster id that all collections with a known id have in common; "" if they differ.
func clusterOf(all []Collection) (id string) {
	for _, c := range all {
		switch one := c.Attributes.ClusterID; {
		case one == "" || one == id:
		case id != "":
			return ""
		default:
			id = one
		}
	}
	return id
}

// leavesOut returns the reason why a collection is not saved; "" if it is.
func (j *saving) leavesOut(c Collection) string {
	if len(j.o.Recipients) > 0 || j.o.Secrets {
		return ""
	}
	if why := c.Confidential(); why != "" {
		return why + ", the snapshot is not encrypted, and they were not asked for in plain text"
	}
	return ""
}

func (j *saving) collection(ctx context.Context, out *writer, c Collection) error {
	if err := out.Begin(c.Identity); err != nil {
		return err
	}
	j.now.Collection = c.Identity
	err := j.selected.Records(ctx, c.Identity, func(r entry.Entry) error {
		j.done(r)
		return out.Add(r)
	})
	if err != nil {
		return err
	}
	// A live server's resourceVersion is known only after the collection's records were read.
	if live, ok := j.src.(*liveSource); ok {
		c = live.withState(c)
	}
	if c, err = out.End(c); err != nil {
		return err
	}
	j.saved.Collections = append(j.saved.Collections, c)
	j.report()
	return nil
}

type progress struct {
	notify func(Progress)
	now    Progress
}

func (p *progress) done(r entry.Entry) {
	p.now.Objects++
	p.now.Bytes += int64(len(r.Payload))
	if p.now.Objects%progressEvery == 0 {
		p.report()
	}
}

func (p *progress) report() {
	if p.notify != nil {
		p.notify(p.now)
	}
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// spool stores a snapshot that arrives as a stream, since it must be complete before it can be read. Its temporary file
// has no name, and is encrypted with a key that exists only in memory.
type spool struct {
	f      *os.File
	sealed io.WriteCloser
	key    *age.X25519Identity
	// named is true if the temporary file still has a name, because the system cannot remove open files.
	named bool
}

func newSpool(name string) (*spool, error) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name+rand.Text(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	s := &spool{f: f, key: key}
	s.named = os.Remove(f.Name()) != nil // Windows cannot remove an open file
	if s.sealed, err = age.Encrypt(f, key.Recipient()); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *spool) Write(p []byte) (int, error) { return s.sealed.Write(p) }

// open returns the complete snapshot for reading, until the spool is closed. Write must not be called afterwards.
func (s *spool) open() (*File, error) {
	if err := s.sealed.Close(); err != nil {
		return nil, err
	}
	info, err := s.f.Stat()
	if err != nil {
		return nil, err
	}
	return NewFile(s.f, info.Size(), OpenOptions{Identities: []age.Identity{s.key}})
}

func (s *spool) close() {
	_ = s.f.Close()
	if s.named {
		_ = os.Remove(s.f.Name())
	}
}
