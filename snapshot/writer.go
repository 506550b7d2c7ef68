package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
)

// WriterOptions are those of NewWriter. The zero value works.
type WriterOptions struct {
	// Recipients are who can read the snapshot; empty does not encrypt it. See ParseRecipients.
	Recipients []age.Recipient

	id      fileID // for tests; zero is a random one
	block   int    // likewise; zero is blockTarget
	version uint32 // likewise; zero is formatNow
}

// Writer writes a snapshot to a stream. Begin, Add any number of times and End write one collection; Close ends the
// snapshot, which is none before. It holds one block and one page of the index. After an error every call returns it. A
// Writer is used by one goroutine.
type Writer struct {
	w      io.Writer
	sealed io.WriteCloser // w, if it encrypts
	pack   *packer
	id     fileID
	target int // size of a block

	err    error
	closed bool
	offset uint64
	number uint32
	// whole is over the prologue and the digests of the frames.
	whole  hash.Hash
	digest [digestSize]byte
	// tail is the body of the tail, for the collections that have ended.
	tail []byte
	ids  map[string]bool
	out  []byte // the frame that is written

	// Of the collection that is open:
	open    bool
	current Collection
	ref     collectionRef
	block   []byte
	first   string
	last    string
	count   uint64 // in the block
	page    []byte
	pageKey string
}

// NewWriter writes the beginning of a snapshot to w.
func NewWriter(w io.Writer, h Header, o WriterOptions) (*Writer, error) {
	if len(h.Larder) > math.MaxUint8 {
		return nil, fmt.Errorf("the version %.100q… has %d bytes, 255 are allowed: %w", h.Larder, len(h.Larder), ErrTooLarge)
	}
	pack, err := newPacker()
	if err != nil {
		return nil, err
	}
	s := &Writer{w: w, pack: pack, id: o.id, target: cmp.Or(o.block, blockTarget), whole: sha256.New(),
		ids: map[string]bool{}}
	if s.id == (fileID{}) {
		s.id = newFileID()
	}
	if len(o.Recipients) > 0 {
		if s.sealed, err = age.Encrypt(w, o.Recipients...); err != nil {
			return nil, fmt.Errorf("encrypt the snapshot: %w", err)
		}
		s.w = s.sealed
	}
	begin := prologue{version: cmp.Or(o.version, formatNow), id: s.id, larder: h.Larder}.append(nil)
	s.whole.Write(begin)
	if err := s.write(begin); err != nil {
		return nil, err
	}
	text, err := marshal("the manifest", h)
	if err != nil {
		return nil, err
	}
	m, _, err := s.frame(kindManifest, nil, text)
	if err != nil {
		return nil, err
	}
	s.tail = m.append(nil)
	return s, nil
}

// isText says whether all that an identity consists of can be written.
func isText(id entry.Identity) bool {
	return utf8.ValidString(strings.Join([]string{id.Group, id.Version, id.Resource, id.Namespace, id.LabelSelector,
		id.FieldSelector, id.ShardSelector}, " "))
}

// Begin begins a collection. Its identity must not have been there yet.
func (w *Writer) Begin(c Collection) error {
	if err := w.ready(false); err != nil {
		return err
	}
	id, err := c.Identity.Canonical()
	if err != nil {
		return w.fail(err)
	}
	c.Identity, c.Objects, c.Bytes, c.Blocks = id, 0, 0, 0
	if !isText(id) {
		return w.fail(fmt.Errorf("identity %q is not UTF-8", id))
	}
	if len(w.ids) == maxCollections {
		return w.fail(fmt.Errorf("more than %d collections: %w", maxCollections, ErrTooLarge))
	}
	if w.ids[id.ID()] {
		return w.fail(fmt.Errorf("the collection %s is there twice: %w", id, ErrOrder))
	}
	text, err := marshal("the description of "+id.String(), textOf(c))
	if err != nil {
		return w.fail(err)
	}
	if _, _, err := w.frame(kindCollection, w.head(), text); err != nil {
		return err
	}
	w.ids[id.ID()] = true
	w.current, w.ref, w.open = c, collectionRef{}, true
	w.last = ""
	return nil
}

// Add appends a record to the collection that was begun. Keys must ascend in the order of their bytes. What r holds may
// be used again afterwards.
func (w *Writer) Add(r entry.Entry) error {
	if err := w.ready(true); err != nil {
		return err
	}
	if err := checkRecord(r); err != nil {
		return w.fail(fmt.Errorf("%s: %w", w.current.Identity, err))
	}
	if r.Key <= w.last {
		return w.fail(fmt.Errorf("%s: key %q after %q: %w", w.current.Identity, r.Key, w.last, ErrOrder))
	}
	if len(w.block)+recordSize(r) > maxBody {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.count == 0 {
		w.first = r.Key
	}
	w.block = appendRecord(w.block, r)
	w.last = r.Key
	w.count++
	w.current.Objects++
	w.current.Bytes += int64(len(r.Payload))
	if len(w.block) >= w.target {
		return w.flush()
	}
	return nil
}

// End ends the collection that was begun.
func (w *Writer) End() error { return w.EndWith(w.current.State()) }

// EndWith ends the collection that was begun, whose state was not what Begin said, or not known then.
func (w *Writer) EndWith(s State) error {
	if err := w.ready(true); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.flushPage(); err != nil {
		return err
	}
	w.current.setState(s)
	text, err := marshal("the description of "+w.current.Identity.String(), textOf(w.current))
	if err != nil {
		return w.fail(err)
	}
	if w.ref.end, _, err = w.frame(kindEnd, w.head(), text); err != nil {
		return err
	}
	w.tail = w.ref.append(w.tail)
	if len(w.tail) > maxBody {
		return w.fail(fmt.Errorf("%d collections: their index takes %d bytes, %d are allowed: %w", len(w.ids), len(w.tail),
			maxBody, ErrTooLarge))
	}
	w.open, w.ref = false, collectionRef{}
	return nil
}

// Close ends the snapshot. It does not close the stream below, and does not sync it. A snapshot whose Writer was not
// closed is damaged.
func (w *Writer) Close() error {
	if err := w.ready(false); err != nil {
		return err
	}
	digest := [digestSize]byte(w.whole.Sum(nil))
	tail, _, err := w.frame(kindTail, digest[:], w.tail)
	if err != nil {
		return err
	}
	if err := w.write(footer{offset: tail.offset, length: uint32(tail.length), id: w.id}.append(nil)); err != nil {
		return err
	}
	if w.sealed != nil {
		if err := w.sealed.Close(); err != nil {
			return w.fail(fmt.Errorf("write the snapshot: %w", err))
		}
	}
	w.closed, w.digest = true, digest
	return nil
}

// ready says whether a call that needs a collection to be open, or none, is in its turn.
func (w *Writer) ready(open bool) error {
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return fmt.Errorf("the snapshot has been closed: %w", ErrOrder)
	case open && !w.open:
		return w.fail(fmt.Errorf("no collection was begun: %w", ErrOrder))
	case !open && w.open:
		return w.fail(fmt.Errorf("the collection %s has not been ended: %w", w.current.Identity, ErrOrder))
	}
	return nil
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

// head is that of the frames of a collection but its blocks: its number.
func (w *Writer) head() []byte {
	n := len(w.ids)
	if w.open {
		n--
	}
	return binary.AppendUvarint(nil, uint64(n))
}

// flush writes the block.
func (w *Writer) flush() error {
	if w.count == 0 {
		return nil
	}
	head := blockHead{collection: uint64(len(w.ids) - 1), count: w.count, first: w.first, last: w.last}
	at, digest, err := w.frame(kindBlock, head.append(nil), w.block)
	if err != nil {
		return err
	}
	if len(w.page) == 0 {
		w.pageKey = w.first
	}
	w.page = indexEntry{
		first: w.first, last: w.last, offset: at.offset, length: at.length, count: w.count, digest: digest,
	}.append(w.page)
	w.current.Blocks++
	w.block, w.count = letGo(w.block), 0
	if len(w.page) >= pageTarget {
		return w.flushPage()
	}
	return nil
}

func (w *Writer) flushPage() error {
	if len(w.page) == 0 {
		return nil
	}
	at, _, err := w.frame(kindPage, w.head(), w.page)
	if err != nil {
		return err
	}
	w.ref.pages = append(w.ref.pages, pageRef{span: at, first: w.pageKey})
	w.page = w.page[:0]
	return nil
}

// frame writes a frame and returns where it is and its digest.
func (w *Writer) frame(kind frameKind, head, body []byte) (span, [digestSize]byte, error) {
	if w.number == math.MaxUint32 {
		return span{}, [digestSize]byte{}, w.fail(fmt.Errorf("the snapshot has too many blocks: %w", ErrTooLarge))
	}
	stored, compression := body, byte(bodyPlain)
	if kind.packs() {
		stored, compression = w.pack.pack(body)
	}
	w.out = frameHead{
		id: w.id, kind: kind, compression: compression, number: w.number, size: uint32(len(body)), offset: w.offset,
	}.append(letGo(w.out), head, stored)
	at := span{offset: w.offset, length: uint64(len(w.out))}
	digest := [digestSize]byte(w.out[len(w.out)-digestSize:])
	w.number++
	w.whole.Write(digest[:])
	return at, digest, w.write(w.out)
}

func (w *Writer) write(data []byte) error {
	n, err := w.w.Write(data)
	w.offset += uint64(n)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return w.fail(fmt.Errorf("write the snapshot: %w", err))
	}
	return nil
}

// Digest returns the SHA-256 over the contents, as Manifest has it, once the snapshot has been closed.
func (w *Writer) Digest() [digestSize]byte { return w.digest }
