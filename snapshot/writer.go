package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"aead.dev/minisign"
	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/layout"
)

type writerOptions struct {
	// Recipients are the age recipients for whom the snapshot is encrypted. Empty: it is not encrypted.
	Recipients []age.Recipient
	Key        *minisign.PrivateKey

	id      layout.ID // random id of the file, set only by tests; zero means a new random id
	block   int       // size at which a block is closed, set only by tests; zero means layout.BlockTarget
	version uint32    // version of the format, set only by tests; zero means layout.Version
}

// writer writes a snapshot to a stream. Begin, any number of Adds, and End write one collection. Document writes a
// document, after all collections. Close completes the snapshot. A writer holds one block, the index of the open
// collection, and the descriptions of the earlier ones. After an error it must not be used any more.
type writer struct {
	w          io.Writer
	sealed     io.WriteCloser // the age encryption below w; nil without encryption
	compressor *layout.Compressor
	id         layout.ID
	target     int // size at which a block is closed
	key        *minisign.PrivateKey

	offset  int64
	catalog catalog
	ids     map[string]bool

	// The fields from here to next describe the collection that is being written.
	now   Collection
	begun int64 // offset of the collection's first block
	index []byte
	first string // key of the collection's first record
	block []byte
	next  layout.Block // index entry of the block that is being filled
}

func newWriter(w io.Writer, h Header, o writerOptions) (*writer, error) {
	if len(h.Larder) > layout.MaxLarder {
		return nil, fmt.Errorf("the version %.100q… has %d bytes, %d are allowed: %w", h.Larder, len(h.Larder),
			layout.MaxLarder, ErrTooLarge)
	}
	compressor, err := layout.NewCompressor()
	if err != nil {
		return nil, err
	}
	s := &writer{w: w, compressor: compressor, id: o.id, target: cmp.Or(o.block, layout.BlockTarget),
		key: o.Key, catalog: catalog{Header: h}, ids: map[string]bool{}}
	if s.id == (layout.ID{}) {
		s.id = layout.NewID()
	}
	if len(o.Recipients) > 0 {
		if s.sealed, err = age.Encrypt(w, o.Recipients...); err != nil {
			return nil, fmt.Errorf("encrypt the snapshot: %w", err)
		}
		s.w = s.sealed
	}
	begin := layout.Prologue{Version: cmp.Or(o.version, layout.Version), ID: s.id, Larder: h.Larder}
	return s, s.write(begin.Append(nil))
}

// isText reports whether all fields of the identity are valid UTF-8, as the catalog needs them.
func isText(id entry.Identity) bool {
	return utf8.ValidString(strings.Join([]string{id.Group, id.Version, id.Resource, id.Namespace, id.LabelSelector,
		id.FieldSelector, id.ShardSelector}, " "))
}

// Begin starts the next collection of the snapshot. It fails with ErrOrder if the snapshot already has the collection.
func (w *writer) Begin(id entry.Identity) error {
	id, err := id.Canonical()
	switch {
	case err != nil:
		return err
	case !isText(id):
		return fmt.Errorf("identity %q is not UTF-8", id)
	case w.ids[id.ID()]:
		return fmt.Errorf("the collection %s is there twice: %w", id, ErrOrder)
	}
	w.ids[id.ID()] = true
	w.now, w.begun, w.index, w.first, w.next = Collection{Identity: id}, w.offset, w.index[:0], "", layout.Block{}
	return nil
}

// Add appends a record to the open collection. Keys must ascend by bytes. The caller may reuse the memory of r.
func (w *writer) Add(r entry.Entry) error {
	if err := w.refuse(r); err != nil {
		return fmt.Errorf("%s: %w", w.now.Identity, err)
	}
	if len(w.block)+layout.RecordSize(r) > layout.MaxPart {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.first == "" {
		w.first = r.Key
	}
	if w.next.Count == 0 {
		w.next.First = r.Key
	}
	w.block = layout.AppendRecord(w.block, r)
	w.next.Last = r.Key
	w.next.Count++
	w.now.Objects++
	w.now.Bytes += int64(len(r.Payload))
	if len(w.block) >= w.target {
		return w.flush()
	}
	return nil
}

// refuse returns an error if the format does not allow record r: its key is out of order, or a part of it is too large.
func (w *writer) refuse(r entry.Entry) error {
	switch {
	case r.Key == "":
		return fmt.Errorf("a record without a key: %w", ErrOrder)
	case r.Key <= w.next.Last:
		return fmt.Errorf("key %q after %q: %w", r.Key, w.next.Last, ErrOrder)
	case len(r.Key) > layout.MaxKey:
		return fmt.Errorf("record %.100q…: a key of %d bytes, %d are allowed: %w", r.Key, len(r.Key), layout.MaxKey,
			ErrTooLarge)
	case layout.LongestMark(r) > layout.MaxMark:
		return fmt.Errorf("record %.100q: its UID, resourceVersion or encoding has %d bytes, %d are allowed: %w", r.Key,
			layout.LongestMark(r), layout.MaxMark, ErrTooLarge)
	case layout.RecordSize(r) > layout.MaxPart:
		return fmt.Errorf("record %q: %d bytes, %d are allowed: %w", r.Key, layout.RecordSize(r), layout.MaxPart,
			ErrTooLarge)
	}
	return nil
}

func (w *writer) flush() error {
	if w.next.Count == 0 {
		return nil
	}
	stored := w.compressor.Compress(w.block)
	w.next.Size, w.next.Stored, w.next.Digest = len(w.block), len(stored), sha256.Sum256(stored)
	w.index = layout.AppendBlock(w.index, w.next)
	w.now.Blocks++
	w.block, w.next.Count = layout.Reuse(w.block), 0
	return w.write(stored)
}

// End writes the index of the open collection. It returns c with the counts of objects, bytes and blocks.
func (w *writer) End(c Collection) (Collection, error) {
	if err := w.flush(); err != nil {
		return c, err
	}
	stored, digest := w.offset-w.begun, sha256.Sum256(w.index)
	if err := w.write(w.index); err != nil {
		return c, err
	}
	c.Objects, c.Bytes, c.Blocks = w.now.Objects, w.now.Bytes, w.now.Blocks
	c.Resource.Namespaced = c.Resource.Namespaced || strings.Contains(w.first, "/")
	text := textOf(c)
	text.Stored, text.Index, text.IndexDigest = stored, len(w.index), digest[:]
	w.catalog.Collections = append(w.catalog.Collections, text)
	if len(w.index) > layout.MaxPart {
		return c, fmt.Errorf("%s: its index takes %d bytes, %d are allowed: %w", w.now.Identity, len(w.index),
			layout.MaxPart, ErrTooLarge)
	}
	return c, nil
}

// Document writes a document. It fails with ErrOrder if the name is already in the snapshot.
func (w *writer) Document(name string, data []byte) error {
	switch {
	case name == "" || !utf8.ValidString(name):
		return fmt.Errorf("document %q: its name is not UTF-8, or empty", name)
	case slices.ContainsFunc(w.catalog.Documents, func(t documentText) bool { return t.Name == name }):
		return fmt.Errorf("document %q is there twice: %w", name, ErrOrder)
	case len(data) > layout.MaxPart:
		return fmt.Errorf("document %q has %d bytes, %d are allowed: %w", name, len(data), layout.MaxPart, ErrTooLarge)
	}
	stored := w.compressor.Compress(data)
	digest := sha256.Sum256(stored)
	w.catalog.Documents = append(w.catalog.Documents,
		documentText{Name: name, Size: len(data), Stored: len(stored), Digest: digest[:]})
	return w.write(stored)
}

// Close completes the snapshot. It neither closes nor syncs the underlying stream.
func (w *writer) Close() error {
	text, err := json.Marshal(w.catalog)
	if err != nil {
		return fmt.Errorf("describe the collections: %w", err)
	}
	if len(text) > layout.MaxPart {
		return fmt.Errorf("the catalog takes %d bytes, %d are allowed: %w", len(text), layout.MaxPart, ErrTooLarge)
	}
	if len(w.catalog.Collections) > maxDescribed || len(w.catalog.Documents) > maxDescribed {
		return fmt.Errorf("%d collections and %d documents, and %d of each are allowed: %w", len(w.catalog.Collections),
			len(w.catalog.Documents), maxDescribed, ErrTooLarge)
	}
	for _, c := range w.catalog.Collections {
		if described, err := json.Marshal(c); err == nil && len(described) > maxDescription {
			return fmt.Errorf("the description of %s.%s takes %d bytes, %d are allowed: %w", c.Resource, c.Group, len(described),
				maxDescription, ErrTooLarge)
		}
	}
	if header, err := json.Marshal(w.catalog.Header); err == nil && len(header) > maxHeader {
		return fmt.Errorf("the header takes %d bytes, %d are allowed: %w", len(header), maxHeader, ErrTooLarge)
	}
	foot := layout.Footer{Catalog: uint64(w.offset), Length: uint32(len(text)), ID: w.id, Digest: sha256.Sum256(text)}
	if w.key != nil {
		text = append(text, sign(w.key, w.catalog.Header, foot.Digest)...)
	}
	if err := w.write(foot.Append(text)); err != nil {
		return err
	}
	if w.sealed != nil {
		if err := w.sealed.Close(); err != nil {
			return fmt.Errorf("write the snapshot: %w", err)
		}
	}
	return nil
}

func (w *writer) write(data []byte) error {
	n, err := w.w.Write(data)
	w.offset += int64(n)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}
