package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
)

// ReaderOptions are those of NewReader. The zero value works for what is not encrypted.
type ReaderOptions struct {
	// Identities are tried in turn if the snapshot is encrypted. See ParseIdentities.
	Identities []age.Identity

	formats map[uint32]format // for tests; nil is formats()
}

// Reader reads a snapshot from a stream, front to back: NextCollection, then Next until io.EOF, and again until
// NextCollection returns io.EOF. It holds one block. What it returns has been verified, but only the io.EOF of
// NextCollection says that the snapshot is whole. After an error, a DamageError for one, every call returns it. A
// Reader is used by one goroutine; Close frees its memory.
type Reader struct {
	in     *window
	unpack *unpacker
	format format

	manifest Manifest
	id       fileID
	err      error
	number   uint32
	whole    hash.Hash
	sum      [digestSize]byte // of whole before the tail
	tail     []byte           // what the tail must be
	ids      map[string]bool

	// Of the collection that is open:
	open    bool
	begun   uint64
	current Collection // as its beginning and, later, its end say
	seen    Collection // what has been counted
	ref     collectionRef
	page    []byte // what the next page must be
	short   bool   // the last page was one that only the last may be
	pageKey string
	last    string

	block blockReader
}

// NewReader reads the beginning of a snapshot. It fails with ErrNotSnapshot, a FormatError, ErrEncrypted or ErrIdentity
// where the snapshot cannot be read, and with a DamageError.
func NewReader(r io.Reader, o ReaderOptions) (*Reader, error) {
	in := &window{r: r}
	encrypted, err := in.decrypt(o.Identities)
	if err != nil {
		return nil, err
	}
	s := &Reader{in: in, whole: sha256.New(), ids: map[string]bool{}}
	if err := s.begin(o.formats); err != nil {
		return nil, err
	}
	s.manifest.Encrypted = encrypted
	return s, nil
}

// begin reads the prologue and the frame M.
func (r *Reader) begin(known map[uint32]format) error {
	if known == nil {
		known = formats()
	}
	data, err := r.in.peek(prologueMax)
	if err != nil && !errors.Is(err, io.EOF) {
		return r.broken(err)
	}
	p, size, err := parsePrologue(data, known)
	if err != nil {
		return err
	}
	r.format, r.id, r.manifest.Format = known[p.version], p.id, p.version
	r.whole.Write(data[:size])
	r.in.skip(size)
	if r.unpack, err = newUnpacker(); err != nil {
		return err
	}
	f, err := r.frame()
	if err == nil && f.kind != kindManifest {
		err = r.damage(f.frameHead, "it is not the manifest, which must come first")
	}
	if err == nil {
		if r.manifest.Header, err = r.format.header(f.body); err != nil {
			err = r.damage(f.frameHead, "the manifest cannot be read: "+textError(err))
		}
	}
	if err != nil {
		r.Close()
		return err
	}
	r.tail = span{offset: f.offset, length: uint64(f.total())}.append(nil)
	return nil
}

// Header returns what the snapshot says about itself.
func (r *Reader) Header() Header { return r.manifest.Header }

// Manifest returns what is known up to now: its Collections are empty, and its Digest is there when NextCollection has
// returned io.EOF.
func (r *Reader) Manifest() Manifest { return r.manifest }

// Close frees the Reader's memory. It does not close the stream.
func (r *Reader) Close() {
	if r.unpack != nil {
		r.unpack.close()
		r.unpack = nil
	}
	if r.err == nil {
		r.err = errClosed
	}
}

var errClosed = errors.New("the snapshot has been closed")

// NextCollection goes to the next collection, past the rest of this one, and returns it as it was begun; see
// Collection. At the end of the snapshot it returns io.EOF.
func (r *Reader) NextCollection() (Collection, error) {
	for r.open && r.err == nil {
		if err := r.nextBlock(); err != nil && !errors.Is(err, io.EOF) {
			return Collection{}, err
		}
	}
	if r.err != nil {
		return Collection{}, r.err
	}
	f, err := r.frame()
	if err != nil {
		return Collection{}, err
	}
	switch f.kind {
	case kindCollection:
		return r.beginCollection(f)
	case kindTail:
		r.err = r.finish(f)
		return Collection{}, r.err
	}
	return Collection{}, r.damage(f.frameHead, fmt.Sprintf("it is of kind %q, and a collection should begin here",
		byte(f.kind)))
}

// Next returns the next record of the collection; its payload is valid until the next call. At the end of the
// collection it returns io.EOF.
func (r *Reader) Next() (entry.Entry, error) {
	for {
		if rec, ok := r.block.next(); ok {
			return rec, nil
		}
		if r.err != nil {
			return entry.Entry{}, r.err
		}
		if !r.open {
			return entry.Entry{}, io.EOF
		}
		if err := r.nextBlock(); err != nil {
			return entry.Entry{}, err
		}
	}
}

// Collection returns the collection that NextCollection has gone to. After its last record it has the state that was
// known at its end, and counts.
func (r *Reader) Collection() Collection { return r.current }

func (r *Reader) beginCollection(f frame) (Collection, error) {
	n, rest, ok := cutNumber(f.head)
	if !ok || len(rest) > 0 || n != uint64(len(r.ids)) {
		return Collection{}, r.damage(f.frameHead, "it is not the collection that comes next")
	}
	c, err := r.format.collection(f.body)
	if err != nil {
		return Collection{}, r.damage(f.frameHead, "the collection's description cannot be read: "+textError(err))
	}
	if r.ids[c.Identity.ID()] || len(r.ids) == maxCollections {
		return Collection{}, r.damage(f.frameHead,
			"the collection "+c.Identity.String()+" is there twice, or is one too many")
	}
	r.ids[c.Identity.ID()] = true
	r.open, r.begun, r.current, r.seen = true, n, c, Collection{}
	r.ref, r.page, r.last, r.short = collectionRef{}, r.page[:0], "", false
	return c, nil
}

// nextBlock reads frames up to the next block, which it opens, or to the collection's end: io.EOF.
func (r *Reader) nextBlock() error {
	r.block = blockReader{}
	for {
		f, err := r.frame()
		if err != nil {
			return err
		}
		switch f.kind {
		case kindBlock:
			return r.openBlock(f)
		case kindPage:
			err = r.checkPage(f)
		case kindEnd:
			if err = r.endCollection(f); err == nil {
				return io.EOF
			}
		default:
			err = r.damage(f.frameHead, fmt.Sprintf("it is of kind %q, in the middle of a collection", byte(f.kind)))
		}
		if err != nil {
			return err
		}
	}
}

func (r *Reader) openBlock(f frame) error {
	b, wrong := parseBlock(f, r.format, r.last)
	if wrong == "" && b.head.collection != r.begun {
		wrong = "it is of another collection"
	}
	if wrong != "" {
		return r.damage(f.frameHead, wrong)
	}
	if r.short {
		return r.damage(f.frameHead, "it follows what should be the last page of the collection's index")
	}
	if len(r.page) == 0 {
		r.pageKey = b.head.first
	}
	r.page = indexEntry{
		first: b.head.first, last: b.head.last, offset: f.offset, length: uint64(f.total()), count: b.head.count,
		digest: f.digest,
	}.append(r.page)
	if len(r.page) > maxPage {
		return r.damage(f.frameHead, "there are too many blocks without a page of the index")
	}
	r.last = b.head.last
	if r.seen.Blocks == 0 {
		r.current.noteKey(b.head.first)
	}
	r.seen.Blocks++
	r.seen.Objects += int(b.head.count)
	r.seen.Bytes += b.bytes
	r.block = b
	return nil
}

func (r *Reader) checkPage(f frame) error {
	if n, rest, ok := cutNumber(f.head); !ok || len(rest) > 0 || n != r.begun {
		return r.damage(f.frameHead, "it is of another collection")
	}
	if len(r.page) == 0 || !bytes.Equal(f.body, r.page) {
		return r.damage(f.frameHead, "this page of the index is not that of the blocks before it")
	}
	r.ref.pages = append(r.ref.pages, pageRef{span: span{offset: f.offset, length: uint64(f.total())}, first: r.pageKey})
	r.short = len(r.page) < pageTarget
	r.page = r.page[:0]
	return nil
}

func (r *Reader) endCollection(f frame) error {
	if n, rest, ok := cutNumber(f.head); !ok || len(rest) > 0 || n != r.begun {
		return r.damage(f.frameHead, "it is of another collection")
	}
	if len(r.page) > 0 {
		return r.damage(f.frameHead, "the index of the blocks before it is missing")
	}
	c, err := r.format.collection(f.body)
	if err != nil {
		return r.damage(f.frameHead, "the collection's description cannot be read: "+textError(err))
	}
	if c.Identity != r.current.Identity {
		return r.damage(f.frameHead, "it is the end of "+c.Identity.String())
	}
	if c.Objects != r.seen.Objects || c.Bytes != r.seen.Bytes || c.Blocks != r.seen.Blocks {
		return r.damage(f.frameHead, fmt.Sprintf("the collection should have %d objects in %d blocks, and has %d in %d",
			c.Objects, c.Blocks, r.seen.Objects, r.seen.Blocks))
	}
	r.ref.end = span{offset: f.offset, length: uint64(f.total())}
	r.tail = r.ref.append(r.tail)
	c.Resource.Namespaced = c.Resource.Namespaced || r.current.Resource.Namespaced
	r.current, r.open = c, false
	return nil
}

// finish verifies the tail and what follows, and returns io.EOF if all is well.
func (r *Reader) finish(f frame) error {
	sum := r.sum
	switch {
	case !bytes.Equal(f.head, sum[:]):
		return r.damage(f.frameHead, "the digest over the whole is not that of the blocks before it")
	case !bytes.Equal(f.body, r.tail):
		return r.damage(f.frameHead, "the index is not that of the collections before it")
	}
	at := r.in.offset
	data, err := r.in.peek(footerSize + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return r.broken(err)
	}
	if len(data) > footerSize {
		return &DamageError{Block: -1, Offset: at + footerSize, Reason: "something follows its end"}
	}
	foot, ok := parseFooter(data)
	if !ok || foot != (footer{offset: f.offset, length: uint32(f.total()), id: r.id}) {
		return &DamageError{Block: -1, Offset: at, Reason: "its last bytes are missing or not what was written"}
	}
	r.manifest.Digest = r.sum
	return io.EOF
}

// frame reads and verifies the next frame.
func (r *Reader) frame() (frame, error) {
	if r.err != nil {
		return frame{}, r.err
	}
	p := place{id: r.id, offset: uint64(r.in.offset), number: int64(r.number)}
	f, err := readFrame(r.in, p, r.unpack)
	if err != nil {
		var d *DamageError
		if errors.As(err, &d) && d.Collection == "" && r.open {
			d.Collection = r.current.Identity.String()
		}
		r.err = err
		return frame{}, err
	}
	r.number++
	if f.kind == kindTail {
		r.sum = [digestSize]byte(r.whole.Sum(nil))
	}
	r.whole.Write(f.digest[:])
	return f, nil
}

// readFrame reads the frame that begins here and skips it.
func readFrame(in *window, p place, unpack *unpacker) (frame, error) {
	d := &DamageError{Block: int(p.number), Offset: int64(p.offset)}
	data, err := in.peek(fixedSize)
	if err == nil {
		if h, wrong := parseFixed(data); wrong == "" {
			data, err = in.peek(fixedSize + int(h.headSize))
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		d.Reason, d.Err = "it cannot be read", err
		return frame{}, d
	}
	if err != nil {
		d.Reason = "the file ends here"
		return frame{}, d
	}
	h, head, wrong := headOf(data, p)
	if wrong != "" {
		d.Reason = wrong
		return frame{}, d
	}
	if h.kind == kindBlock {
		if b, ok := parseBlockHead(head); ok {
			d.First, d.Last = b.first, b.last
		}
	}
	if data, err = in.peek(h.total()); err != nil {
		d.Reason = fmt.Sprintf("the file ends within it, %d bytes too early", h.total()-len(data))
		if !errors.Is(err, io.EOF) {
			d.Reason, d.Err = "it cannot be read", err
		}
		return frame{}, d
	}
	f, wrong := h.open(data, data[fixedSize:fixedSize+int(h.headSize)], unpack)
	if wrong != "" {
		d.Reason = wrong
		return frame{}, d
	}
	in.skip(h.total())
	return f, nil
}

func (r *Reader) damage(h frameHead, reason string) error {
	d := &DamageError{Block: int(h.number), Offset: int64(h.offset), Reason: reason}
	if r.open {
		d.Collection = r.current.Identity.String()
	}
	r.err = d
	return d
}

func (r *Reader) broken(err error) error {
	return &DamageError{Block: -1, Offset: r.in.offset, Reason: "it cannot be read", Err: err}
}

// textError is err without the contents that errors of encoding/json may quote.
func textError(err error) string {
	if errors.Is(err, errCounts) {
		return err.Error()
	}
	return fmt.Sprintf("malformed (%T)", err)
}
