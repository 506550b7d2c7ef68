package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/layout"
)

// OpenOptions are the options of Open. The zero value works if the snapshot is not encrypted.
type OpenOptions struct {
	Identities []age.Identity
	// SignedBy has public keys, one of which must have signed the snapshot. Default: no signature is needed.
	SignedBy []minisign.PublicKey
	// MaxAge bounds the age of seeds: a collection whose last contact with its server is longer ago is no seed. Other uses
	// ignore MaxAge. Default: no bound.
	MaxAge time.Duration
	// Name is the name of the snapshot in messages, for NewFile, which has no path. It must not contain credentials.
	Name string
}

// File is an open snapshot file. Reads use its index and verify each block. Any number of goroutines may use it.
type File struct {
	in     io.ReaderAt // decrypted contents of the file
	size   int64
	closer io.Closer // closes the underlying file; nil if there is nothing to close
	source string    // name of the file in messages
	maxAge time.Duration

	manifest  Manifest
	parts     []part         // one for each collection of the manifest, in the order of the manifest
	byID      map[string]int // Identity.ID → index in parts
	blocks    int            // number of blocks of all collections
	documents map[string]document
	buffers   sync.Pool
}

var _ Source = (*File)(nil)

// part has the offsets of a collection in the file: of the first block, of the index of blocks, and of the end.
type part struct {
	begin, index, end int64
	digest            string // SHA-256 of the index's bytes
	number            int    // number of the collection's first block, counted over the whole file
}

type buffer struct {
	data         []byte
	decompressor *layout.Decompressor
}

func (b *buffer) prepare() (err error) {
	if b.decompressor == nil {
		b.decompressor, err = layout.NewDecompressor()
	}
	return err
}

// Open opens the snapshot at path. It reads the start and the end of the file, and no blocks; Verify reads all. It
// fails with ErrNotSnapshot, ErrNewerFormat, ErrEncrypted or ErrIdentity if the snapshot cannot be read, with a
// DamageError if it was truncated or its catalog is damaged, and with ErrUnsigned or ErrSignature if no key of
// o.SignedBy has signed it. Damaged blocks do not fail Open: see Records.
func Open(path string, o OpenOptions) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file; SaveStream writes a stream to one")
	}
	var s *File
	if err == nil {
		s, err = NewFile(f, info.Size(), o)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.closer, s.source = f, path
	return s, nil
}

// NewFile opens a snapshot like Open, from the first size bytes of r instead of a path. File.Close closes r if it is an
// io.Closer; a failed NewFile does not.
func NewFile(r io.ReaderAt, size int64, o OpenOptions) (*File, error) {
	in, plain, encrypted, err := decryptAt(r, size, o.Identities)
	if err != nil {
		return nil, err
	}
	f := &File{in: in, size: plain, source: o.Name, maxAge: o.MaxAge, byID: map[string]int{},
		documents: map[string]document{}}
	f.buffers.New = func() any { return new(buffer) }
	f.closer, _ = r.(io.Closer)
	f.manifest.Encrypted = encrypted
	if err := f.open(o.SignedBy); err != nil {
		return nil, err
	}
	return f, nil
}

// Close closes the file.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Manifest returns the description of the snapshot. Do not modify it.
func (f *File) Manifest() Manifest { return f.manifest }

// Collections implements Source.
func (f *File) Collections(context.Context) ([]Collection, error) {
	return append([]Collection(nil), f.manifest.Collections...), nil
}

// Records implements Source. It skips damaged blocks and calls fn with the records of all others. Then it returns a
// *MissingError with the damaged blocks and the number of their objects.
func (f *File) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	return f.scan(ctx, id, keyRange{}, fn)
}

// Namespace is Records for the objects in one namespace. It reads only the blocks whose keys may be in that namespace.
func (f *File) Namespace(ctx context.Context, id entry.Identity, namespace string, fn func(entry.Entry) error) error {
	return f.scan(ctx, id, keyRange{prefix: namespace + "/"}, fn)
}

// RecordsAfter is Records for the keys that begin with prefix and are greater than after. It reads only the blocks that
// may contain such keys.
func (f *File) RecordsAfter(
	ctx context.Context, id entry.Identity, after, prefix string, fn func(entry.Entry) error,
) error {
	return f.scan(ctx, id, keyRange{prefix: prefix, after: after}, fn)
}

// Get returns the record of an object, and whether the snapshot has it. The payload belongs to the caller. If the key's
// block is damaged, the error is a *MissingError.
func (f *File) Get(ctx context.Context, id entry.Identity, key string) (rec entry.Entry, ok bool, err error) {
	err = f.scan(ctx, id, keyRange{prefix: key, one: true}, func(r entry.Entry) error {
		rec, ok = r, true
		rec.Payload = append([]byte(nil), r.Payload...)
		return nil
	})
	return rec, ok, err
}

// keyRange is a range of object keys: one key, or all keys that have a prefix and are greater than the key after.
type keyRange struct {
	prefix, after string
	one           bool
}

func (k keyRange) has(key string) bool {
	return strings.HasPrefix(key, k.prefix) && key > k.after && (!k.one || key == k.prefix)
}

func (k keyRange) past(key string) bool { return key > max(k.prefix, k.after) && !k.has(key) }

// scan is Records for a range of keys.
func (f *File) scan(ctx context.Context, id entry.Identity, k keyRange, fn func(entry.Entry) error) error {
	n, ok := f.byID[id.ID()]
	if !ok {
		return fmt.Errorf("%s: %w", id, ErrNoCollection)
	}
	missing := &MissingError{Collection: f.name(n)}
	blocks, err := f.index(n)
	if err != nil { // the index is damaged, so no block of the collection can be read
		if err := missing.add(err, 0); err != nil {
			return err
		}
	}
	buf := f.buffers.Get().(*buffer)
	defer f.buffers.Put(buf)
	seen := 0
	first := sort.Search(len(blocks), func(i int) bool { return blocks[i].Last >= max(k.prefix, k.after) })
	for i := first; i < len(blocks) && !k.past(blocks[i].First); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		records, err := f.block(buf, n, i, blocks[i])
		if err != nil {
			err = missing.add(err, blocks[i].Count)
		} else {
			seen += blocks[i].Count
			err = each(records, k, func(r entry.Entry) error {
				if err := f.decodable(r); err != nil {
					return fmt.Errorf("%s: %w", f.name(n), err)
				}
				return fn(r)
			})
		}
		if err != nil {
			return err
		}
	}
	if all := f.manifest.Collections[n].Objects; k == (keyRange{}) && all != seen {
		if len(missing.Damage) == 0 {
			return f.damage(f.parts[n].index, n, fmt.Sprintf("it has %d objects, and the catalog says %d", seen, all))
		}
		missing.Objects, missing.Exact = all-seen, true
	}
	return missing.errOrNil()
}

// Decoding an object may take decodeLeast bytes of memory plus decodeRatio times the size of the snapshot file, as
// codec.Weight estimates. Objects of up to decodeAlways bytes never exceed that, and are not checked.
const (
	decodeLeast  = 32 << 20
	decodeRatio  = 4
	decodeAlways = 32 << 10
)

// decodable returns an error if decoding the record's object would take memory out of proportion to the snapshot file.
func (f *File) decodable(r entry.Entry) error {
	if len(r.Payload) <= decodeAlways {
		return nil
	}
	w, atMost := codec.Weight(r.Encoding, r.Payload), decodeLeast+decodeRatio*f.size
	if w <= atMost {
		return nil
	}
	return fmt.Errorf("%q takes about %d MiB to decode, and an object of a snapshot of %d bytes may take %d MiB: %w",
		r.Key,
		w>>20, f.size, atMost>>20, ErrTooLarge)
}

// index reads and verifies the index of the n-th collection: the list of its blocks.
func (f *File) index(n int) ([]layout.Block, error) {
	p := f.parts[n]
	data := make([]byte, p.end-p.index)
	if err := f.read(data, p.index, n); err != nil {
		return nil, err
	}
	if digest := sha256.Sum256(data); string(digest[:]) != p.digest {
		return nil, f.damage(p.index, n, "its index is not what was written (SHA-256)")
	}
	blocks, wrong := layout.ParseIndex(data, p.begin, p.index)
	if wrong == "" && len(blocks) != f.manifest.Collections[n].Blocks {
		wrong = "it names another number of blocks than the catalog"
	}
	if wrong != "" {
		return nil, f.damage(p.index, n, "its index is wrong: "+wrong)
	}
	return blocks, nil
}

// block reads and verifies block i of collection n. The returned records are valid until buf is used again.
func (f *File) block(buf *buffer, n, i int, b layout.Block) ([]byte, error) {
	records, err := f.records(buf, n, b)
	if d := new(DamageError); errors.As(err, &d) {
		d.Block, d.First, d.Last = f.parts[n].number+i, b.First, b.Last
	}
	return records, err
}

func (f *File) records(buf *buffer, n int, b layout.Block) (records []byte, err error) {
	if err := buf.prepare(); err != nil {
		return nil, err
	}
	if buf.data = layout.Reuse(buf.data); cap(buf.data) < b.Stored {
		buf.data = make([]byte, b.Stored)
	}
	stored := buf.data[:b.Stored]
	if err := f.read(stored, b.Offset, n); err != nil {
		return nil, err
	}
	if sha256.Sum256(stored) != b.Digest {
		return nil, f.damage(b.Offset, n, "it is not what was written (SHA-256)")
	}
	if records, err = buf.decompressor.Decompress(stored, b.Size); err != nil {
		return nil, f.damage(b.Offset, n, "it cannot be decompressed: "+err.Error())
	}
	if wrong := b.Check(records); wrong != "" {
		return nil, f.damage(b.Offset, n, wrong)
	}
	return records, nil
}

func each(records []byte, k keyRange, fn func(entry.Entry) error) error {
	for len(records) > 0 {
		r, more, ok := layout.CutRecord(records)
		if !ok || k.past(r.Key) { // ok is always true here: Block.Check has parsed the records before
			return nil
		}
		if records = more; k.has(r.Key) {
			if err := fn(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// read fills data from offset at of the file. Its errors name collection n; n is -1 outside of collections.
func (f *File) read(data []byte, at int64, n int) error {
	if got, err := f.in.ReadAt(data, at); got < len(data) {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return &DamageError{Block: -1, Offset: at, Collection: f.name(n), Reason: "it cannot be read", Err: err}
	}
	return nil
}

func (f *File) name(n int) string {
	if n < 0 {
		return ""
	}
	return f.manifest.Collections[n].Identity.String()
}

func (f *File) damage(at int64, n int, reason string) error {
	return &DamageError{Block: -1, Offset: at, Collection: f.name(n), Reason: reason}
}

// maxProblems is the maximum number of problems in a Report. One more line then says that there are others.
const maxProblems = 1000

// Report is the result of Verify.
type Report struct {
	Collections int
	Objects     int
	Bytes       int64
	// Unknown counts objects of unknown types, whose payloads were not decoded.
	Unknown int
	// Problems has a line for each problem; empty if the whole snapshot is sound.
	Problems []string
}

func (r *Report) problem(format string, args ...any) {
	switch n := len(r.Problems); {
	case n < maxProblems:
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	case n == maxProblems:
		r.Problems = append(r.Problems, "there are more problems")
	}
}

// Verify reads the whole snapshot. It checks digests, the order of keys, counts and indexes, that every object has a
// UID, and that objects of known types can be decoded. Damage is in Report.Problems; only the end of ctx fails Verify.
func (f *File) Verify(ctx context.Context) (Report, error) {
	var report Report
	for _, c := range f.manifest.Collections {
		report.Collections++
		d := NewDecoder(c)
		err := f.Records(ctx, c.Identity, func(r entry.Entry) error {
			report.Objects++
			report.Bytes += int64(len(r.Payload))
			report.verify(d, r)
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return report, ctx.Err()
		case err != nil:
			report.problem("%v", err)
		}
	}
	for _, name := range f.manifest.Documents {
		switch _, err := f.Document(ctx, name); {
		case ctx.Err() != nil:
			return report, ctx.Err()
		case err != nil:
			report.problem("%v", err)
		}
	}
	return report, nil
}

// verify decodes the object of a record, compares its metadata with the record, and adds the problems to the report.
func (r *Report) verify(d *Decoder, rec entry.Entry) {
	if rec.UID == "" {
		r.problem("%s: %q has no UID", d.id, rec.Key)
	}
	u, err := d.Decode(rec)
	switch {
	case errors.Is(err, ErrUndecodable):
		r.Unknown++
	case err != nil:
		r.problem("%s: %v", d.id, err)
	case string(u.GetUID()) != rec.UID || u.GetResourceVersion() != rec.ResourceVersion:
		r.problem("%s: %q has another UID or resourceVersion than its record says", d.id, rec.Key)
	}
}
