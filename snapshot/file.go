package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"sync"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
)

// OpenOptions are those of Open. The zero value works for what is not encrypted.
type OpenOptions struct {
	// Identities are tried in turn if the snapshot is encrypted. See ParseIdentities.
	Identities []age.Identity

	formats map[uint32]format // for tests; nil is formats()
}

// File is a snapshot that is read at random, through its index. Every read takes one block and verifies it. Any number
// of goroutines may use it.
type File struct {
	in     io.ReaderAt
	size   int64
	closer io.Closer
	format format
	id     fileID

	manifest Manifest
	refs     []collectionRef // as the manifest's collections
	byID     map[string]int
	buffers  sync.Pool // of *buffer
}

var _ Source = (*File)(nil)

// buffer is what one read needs.
type buffer struct {
	data   []byte
	unpack *unpacker
}

// Open opens the snapshot at path. It reads what is at its front and its end, and no blocks: Verify reads all.
// It fails as NewReader does; a file that was cut short, or whose index is damaged, fails with a DamageError here.
// A block of records that is damaged does not keep it from opening: see Records.
func Open(path string, o OpenOptions) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file; a stream is read by a Reader")
	}
	var s *File
	if err == nil {
		s, err = NewFile(f, info.Size(), o)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.closer = f
	return s, nil
}

// NewFile is Open for the size bytes of r.
func NewFile(r io.ReaderAt, size int64, o OpenOptions) (*File, error) {
	in, plain, encrypted, err := decryptAt(r, size, o.Identities)
	if err != nil {
		return nil, err
	}
	f := &File{in: in, size: plain, byID: map[string]int{}}
	f.buffers.New = func() any { return new(buffer) }
	f.manifest.Encrypted = encrypted
	begin, err := f.prologue(o.formats)
	if err != nil {
		return nil, err
	}
	if err := f.index(begin); err != nil {
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

// Manifest returns what the snapshot says about itself. Do not modify it.
func (f *File) Manifest() Manifest { return f.manifest }

// Collections implements Source.
func (f *File) Collections(context.Context) ([]Collection, error) {
	return append([]Collection(nil), f.manifest.Collections...), nil
}

// Records implements Source. Blocks that are damaged are passed over, and what is in all others is passed to fn; the
// error at the end is a *MissingError then, which names them and says how many objects were in them.
func (f *File) Records(ctx context.Context, id entry.Identity, after string, fn func(entry.Entry) error) error {
	return f.scan(ctx, id, scanRange{from: after, exclusive: true}, fn)
}

// Namespace calls fn with the records of a namespace, as Records does. It reads only the blocks that they are in.
func (f *File) Namespace(ctx context.Context, id entry.Identity, namespace string, fn func(entry.Entry) error) error {
	return f.scan(ctx, id, scanRange{from: namespace + "/", prefix: namespace + "/"}, fn)
}

// Get returns the record of an object, and whether it is there. The payload belongs to the caller. If the block that
// the object would be in is damaged the error is a *MissingError.
func (f *File) Get(ctx context.Context, id entry.Identity, key string) (rec entry.Entry, ok bool, err error) {
	err = f.scan(ctx, id, scanRange{from: key, prefix: key}, func(r entry.Entry) error {
		if r.Key == key {
			rec, ok = r, true
			rec.Payload = append([]byte(nil), r.Payload...)
		}
		return errStop
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return rec, ok, err
}

var errStop = errors.New("stop")

// scanRange is which keys are read: from one on, and only those with the prefix.
type scanRange struct {
	from      string
	exclusive bool
	prefix    string
}

func (s scanRange) skips(key string) bool { return key < s.from || s.exclusive && key == s.from }

// past says whether key and all behind it are out of the range.
func (s scanRange) past(key string) bool { return !strings.HasPrefix(key, s.prefix) && key > s.prefix }

// whole reports whether all keys are in the range.
func (s scanRange) whole() bool { return s.from == "" && s.prefix == "" }

// scan calls fn with the records in a range, and passes over blocks that are damaged.
func (f *File) scan(ctx context.Context, id entry.Identity, s scanRange, fn func(entry.Entry) error) error {
	n, ok := f.byID[id.ID()]
	if !ok {
		return fmt.Errorf("%s: %w", id, ErrNoCollection)
	}
	seen, missing := 0, &MissingError{Collection: f.name(n)}
	pages := f.refs[n].pages
	// The last page that begins at or before from: the one before the first that begins behind it.
	start := max(sort.Search(len(pages), func(i int) bool { return pages[i].first > s.from })-1, 0)
	for i := start; i < len(pages) && !s.past(pages[i].first); i++ {
		entries, err := f.page(n, i)
		if err != nil {
			err = missing.add(err, 0)
		}
		if err != nil {
			return err
		}
		first := sort.Search(len(entries), func(i int) bool { return entries[i].last >= s.from })
		for _, e := range entries[first:] {
			if s.past(e.first) {
				break
			}
			b, release, err := f.block(ctx, n, e)
			if err != nil {
				err = missing.add(err, int(e.count))
			} else {
				seen += int(e.count)
				err = b.each(s, fn)
				release()
			}
			if err != nil {
				return err
			}
		}
	}
	if all := f.manifest.Collections[n].Objects; s.whole() && all > seen {
		missing.Objects, missing.Exact = all-seen, true
	}
	return missing.errOrNil()
}

// each calls fn with the records of the block that are in a range.
func (b *blockReader) each(s scanRange, fn func(entry.Entry) error) error {
	for {
		r, ok := b.next()
		if !ok || s.past(r.Key) {
			return nil
		}
		if s.skips(r.Key) {
			continue
		}
		if err := fn(r); err != nil {
			return err
		}
	}
}

// block reads and verifies a block that the index names. Its records are valid until release is called.
func (f *File) block(ctx context.Context, n int, e indexEntry) (b blockReader, release func(), err error) {
	if err := ctx.Err(); err != nil {
		return b, nil, err
	}
	buf, err := f.buffer()
	if err != nil {
		return b, nil, err
	}
	fr, err := f.frame(buf, span{e.offset, e.length}, kindBlock, n)
	wrong := ""
	if err == nil {
		b, wrong = parseBlock(fr, f.format, "")
		if wrong == "" && (b.head != blockHead{uint64(n), e.count, e.first, e.last} || fr.digest != e.digest) {
			wrong = "it is not the block that the index names"
		}
	}
	if wrong != "" {
		err = f.damage(fr.frameHead, n, wrong)
	}
	if d := new(DamageError); errors.As(err, &d) { // the index is good, whatever the block says of itself
		d.First, d.Last = e.first, e.last
	}
	if err != nil {
		f.buffers.Put(buf)
		return blockReader{}, nil, err
	}
	return b, func() { f.buffers.Put(buf) }, nil
}

// page reads a page of a collection's index.
func (f *File) page(n, i int) ([]indexEntry, error) {
	buf, err := f.buffer()
	if err != nil {
		return nil, err
	}
	defer f.buffers.Put(buf)
	ref := f.refs[n].pages[i]
	fr, err := f.frame(buf, ref.span, kindPage, n)
	if err != nil {
		return nil, err
	}
	entries, ok := parsePage(fr.body)
	switch {
	case !ok || len(entries) == 0:
		return nil, f.damage(fr.frameHead, n, "this page of the index cannot be read")
	case entries[0].first != ref.first:
		return nil, f.damage(fr.frameHead, n, "this page of the index is not the one that the tail names")
	}
	// Blocks that are in one another would take more time to read than the file has bytes.
	var after uint64
	if i > 0 {
		after = f.refs[n].pages[i-1].end()
	}
	for i, e := range entries {
		switch {
		case e.first > e.last || i > 0 && e.first <= entries[i-1].last:
			return nil, f.damage(fr.frameHead, n, "the keys in this page of the index are not in order")
		case e.offset < after || e.offset > ref.offset || e.length > ref.offset-e.offset:
			return nil, f.damage(fr.frameHead, n,
				"the blocks that this page of the index names are not one behind the other before it")
		}
		after = e.offset + e.length
	}
	return entries, nil
}

func (f *File) buffer() (*buffer, error) {
	b := f.buffers.Get().(*buffer)
	if b.unpack == nil {
		u, err := newUnpacker()
		if err != nil {
			return nil, err
		}
		b.unpack = u
	}
	return b, nil
}

// frame reads and verifies the frame at a place, which must be of a kind. n is the collection it is of, or -1.
func (f *File) frame(b *buffer, at span, kind frameKind, n int) (frame, error) {
	d := &DamageError{Block: -1, Offset: int64(at.offset), Collection: f.name(n)}
	if at.length < frameMin || at.length > maxFrame || at.offset > uint64(f.size) || at.length > uint64(f.size)-at.offset {
		d.Reason = "the index names a block that is not within the file"
		return frame{}, d
	}
	if cap(b.data) < int(at.length) || cap(b.data) > 4*blockTarget && int(at.length) < blockTarget {
		b.data = make([]byte, at.length)
	}
	b.data = b.data[:at.length]
	if _, err := io.ReadFull(io.NewSectionReader(f.in, int64(at.offset), int64(at.length)), b.data); err != nil {
		d.Reason, d.Err = "it cannot be read", err
		return frame{}, d
	}
	h, head, wrong := headOf(b.data, place{id: f.id, offset: at.offset, number: -1})
	if wrong == "" && h.total() != len(b.data) {
		wrong = "it is not as long as the index says"
	}
	if head != nil {
		d.Block = int(h.number)
		if bh, ok := parseBlockHead(head); ok && h.kind == kindBlock {
			d.First, d.Last = bh.first, bh.last
		}
	}
	var fr frame
	if wrong == "" {
		fr, wrong = h.open(b.data, head, b.unpack)
	}
	if wrong == "" && h.kind != kind {
		wrong = fmt.Sprintf("it is of kind %q, and the index says %q", byte(h.kind), byte(kind))
	}
	if wrong != "" {
		d.Reason = wrong
		return frame{}, d
	}
	return fr, nil
}

func (f *File) name(n int) string {
	if n < 0 || n >= len(f.manifest.Collections) {
		return ""
	}
	return f.manifest.Collections[n].Identity.String()
}

func (f *File) damage(h frameHead, n int, reason string) error {
	return &DamageError{Block: int(h.number), Offset: int64(h.offset), Collection: f.name(n), Reason: reason}
}
