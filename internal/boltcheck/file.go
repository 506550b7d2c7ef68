package boltcheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// File is one committed state of a bbolt file.
type File struct {
	Meta
	Size int64
	r    io.ReaderAt
	// free is the set of the page ids in the freelist.
	free bitmap
}

// Open returns the newest committed state of a bbolt file of size bytes. It verifies the file's length, the headers of
// the root and freelist pages, and the freelist.
func Open(r io.ReaderAt, size int64) (*File, error) {
	metas, err := readMetas(r)
	if err != nil {
		return nil, err
	}
	return open(r, size, newest(metas))
}

// OpenTx returns the state of the file that the transaction with that id sees, after the same checks as Open. The
// caller must have just begun that transaction.
func OpenTx(r io.ReaderAt, size int64, txid uint64) (*File, error) {
	m, err := metaOf(r, txid)
	if err != nil {
		return nil, err
	}
	return open(r, size, m)
}

// Salvage returns the state that the transaction with that id sees in a damaged or truncated file. Unlike OpenTx it
// requires only a valid meta page, and does not read the freelist.
func Salvage(r io.ReaderAt, size int64, txid uint64) (*File, error) {
	m, err := metaOf(r, txid)
	if err != nil {
		return nil, err
	}
	m.HighWater = min(m.HighWater, uint64(size)/uint64(m.PageSize))
	return &File{Meta: m, Size: size, r: r, free: newBitmap(m.HighWater)}, nil
}

// ErrOvertaken: bbolt has committed two transactions since the given transaction began, so the meta page of that
// transaction was overwritten. Begin a new transaction.
var ErrOvertaken = errors.New("its meta page has been written over")

// IsFree reports whether the page is in the freelist.
func (f *File) IsFree(id uint64) bool { return id < f.HighWater && f.free.has(id) }

// FreeBytes returns the total size of the free pages, as of the transaction with that id, which the caller must have
// just begun. It reads only the meta pages and the header of the freelist.
func FreeBytes(r io.ReaderAt, txid uint64) (int64, error) {
	m, err := metaOf(r, txid)
	if err != nil {
		return 0, err
	}
	f := &File{Meta: m, r: r}
	_, _, count, err := f.freelistHead()
	return count * int64(m.PageSize), err
}

// Readable returns an error unless r has both meta pages and one of them is valid. It is a cheap check before bbolt
// begins a transaction, which would crash otherwise.
func Readable(r io.ReaderAt) error {
	metas, err := readMetas(r)
	if err != nil || len(metas) == 2 {
		return err
	}
	_, err = r.ReadAt(make([]byte, 1), 2*int64(metas[0].PageSize)-1)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the file ends in its meta pages: %w", ErrDamaged)
	}
	return err
}

func open(r io.ReaderAt, size int64, m Meta) (*File, error) {
	f := &File{Meta: m, Size: size, r: r}
	// HighWater is at most size after the first comparison, so the product in the second comparison cannot overflow.
	if m.HighWater > uint64(size) || m.HighWater*uint64(m.PageSize) > uint64(size) {
		return nil, fmt.Errorf("the file has %d bytes, its %d pages of %d need more: %w", size, m.HighWater, m.PageSize,
			ErrDamaged)
	}
	root, err := f.readPage(m.Root, nil)
	if err != nil {
		return nil, fmt.Errorf("root page: %w", err)
	}
	if root.flags != flagLeaf && root.flags != flagBranch {
		return nil, fmt.Errorf("root page %d is no leaf and no branch (flags %#x): %w", m.Root, root.flags, ErrDamaged)
	}
	if err := f.readFreelist(); err != nil {
		return nil, err
	}
	return f, nil
}

// page is a bbolt page that was read, with its overflow pages.
type page struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64
	span     int64
	off      int64
	// data is the first part of the page and its overflow pages, at most window bytes (64 KiB).
	data []byte
	r    io.ReaderAt
}

// window is the number of bytes that one read takes of a page: a complete ordinary page, or the elements and most keys
// of a larger page.
const window = 64 << 10

// readPage reads a bbolt page into buf, or into new memory if buf is too small. It fails if the header of the page is
// damaged.
func (f *File) readPage(id uint64, buf []byte) (page, error) {
	p, first, err := f.readHead(id, int64(f.PageSize), buf)
	if err != nil {
		return page{}, err
	}
	p.data = first
	if p.overflow > 0 {
		p.data, err = p.read(0, min(p.span, window), first)
	}
	return p, err
}

func (f *File) readHead(id uint64, n int64, buf []byte) (p page, first []byte, err error) {
	if id < 2 || id >= f.HighWater {
		return page{}, nil, fmt.Errorf("page %d is not between 2 and %d: %w", id, f.HighWater, ErrDamaged)
	}
	p = page{off: int64(id) * int64(f.PageSize), r: f.r}
	if first, err = p.read(0, n, buf); err != nil {
		return page{}, nil, fmt.Errorf("page %d: %w", id, err)
	}
	order := binary.NativeEndian
	p.id, p.flags = order.Uint64(first), order.Uint16(first[8:])
	p.count, p.overflow = int(order.Uint16(first[10:])), uint64(order.Uint32(first[12:]))
	switch {
	case p.id != id:
		return page{}, nil, fmt.Errorf("page %d says that it is page %d: %w", id, p.id, ErrDamaged)
	case p.overflow >= f.HighWater-id:
		return page{}, nil, fmt.Errorf("page %d with %d more pages goes beyond page %d: %w", id, p.overflow, f.HighWater,
			ErrDamaged)
	}
	p.span = int64(p.overflow+1) * int64(f.PageSize)
	return p, first, nil
}

func (p *page) read(off, n int64, buf []byte) ([]byte, error) {
	if off+n <= int64(len(p.data)) {
		return p.data[off : off+n], nil
	}
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err := p.r.ReadAt(buf, p.off+off)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the file ends in it: %w", ErrDamaged)
	}
	return buf, err
}

// freelistHead returns the number of page ids on the freelist page, and their offset in that page.
func (f *File) freelistHead() (p page, at, count int64, err error) {
	if f.Freelist == noFreelist {
		// A meta page has a checksum, so a missing freelist is not damage: another program, such as etcd, has chosen to store
		// none.
		return p, 0, 0, fmt.Errorf("the file has no freelist, which Larder always writes: %w", ErrForeign)
	}
	if p, p.data, err = f.readHead(f.Freelist, headerSize+8, nil); err != nil {
		return p, 0, 0, fmt.Errorf("freelist: %w", err)
	}
	if p.flags != flagFreelist {
		return p, 0, 0, fmt.Errorf("freelist: page %d has flags %#x: %w", p.id, p.flags, ErrDamaged)
	}
	count, at = int64(p.count), headerSize
	if count == 0xFFFF { // 0xFFFF is bbolt's mark for a long freelist, which begins with the number of its ids
		b, err := p.read(at, 8, nil)
		if err != nil {
			return p, 0, 0, fmt.Errorf("freelist: %w", err)
		}
		count, at = int64(binary.NativeEndian.Uint64(b)), at+8
	}
	if count < 0 || count > (p.span-at)/8 {
		return p, 0, 0, fmt.Errorf("freelist: page %d has no room for %d ids: %w", p.id, count, ErrDamaged)
	}
	return p, at, count, nil
}

func (f *File) readFreelist() error {
	p, at, count, err := f.freelistHead()
	if err != nil {
		return err
	}
	f.free = newBitmap(f.HighWater)
	if err := f.readFree(p, at, count); err != nil {
		return fmt.Errorf("freelist: %w", err)
	}
	return nil
}

func (f *File) readFree(p page, at, count int64) error {
	const batch = 8 << 10
	buf := make([]byte, 0, min(count, batch)*8)
	for count > 0 {
		n := min(count, batch)
		ids, err := p.read(at, n*8, buf)
		if err != nil {
			return err
		}
		for ; len(ids) > 0; ids = ids[8:] {
			id := binary.NativeEndian.Uint64(ids)
			if id < 2 || id >= f.HighWater || !f.free.set(id) {
				return fmt.Errorf("page %d is listed twice or is no page: %w", id, ErrDamaged)
			}
		}
		at, count = at+n*8, count-n
	}
	for id := p.id; id <= p.id+p.overflow; id++ {
		if f.free.has(id) {
			return fmt.Errorf("it lists its own page %d: %w", id, ErrDamaged)
		}
	}
	return nil
}

// bitmap is a set of page ids.
type bitmap []uint64

func newBitmap(n uint64) bitmap { return make(bitmap, n/64+1) }

func (b bitmap) has(id uint64) bool { return b[id/64]&(1<<(id%64)) != 0 }

// set adds a page id to the bitmap. It returns false if the bitmap already had that id.
func (b bitmap) set(id uint64) bool {
	if b.has(id) {
		return false
	}
	b[id/64] |= 1 << (id % 64)
	return true
}

// ErrDamaged: the contents of the file are not as bbolt wrote them.
var ErrDamaged = errors.New("damaged bbolt file")

// ErrForeign: the file does not begin like a bbolt file, or it was written with options that Larder does not use.
var ErrForeign = errors.New("not a bbolt file")

// The constants of bbolt's file format are copied from bbolt's package internal/common.
const (
	magic      = 0xED0CDAED
	version    = 2
	headerSize = 16
	metaSize   = 64
	sumOffset  = 56

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10

	// noFreelist is the freelist page id in the meta page of a file without a freelist.
	noFreelist = ^uint64(0)

	minPageSize = 1 << 10
	maxPageSize = 1 << 24
)

// Meta is a meta page: the root of one committed transaction.
type Meta struct {
	PageSize int
	Root     uint64
	Freelist uint64
	// HighWater is the first page id that has never been used.
	HighWater uint64
	TxID      uint64
}

func parseMeta(data []byte) (Meta, error) {
	if len(data) < headerSize+metaSize {
		return Meta{}, errors.New("cut short")
	}
	b, order := data[headerSize:headerSize+metaSize], binary.NativeEndian
	m := Meta{
		PageSize:  int(order.Uint32(b[8:])),
		Root:      order.Uint64(b[16:]),
		Freelist:  order.Uint64(b[32:]),
		HighWater: order.Uint64(b[40:]),
		TxID:      order.Uint64(b[48:]),
	}
	sum := fnv.New64a()
	_, _ = sum.Write(b[:sumOffset])
	switch {
	case order.Uint32(b) != magic:
		return Meta{}, errors.New("no magic number")
	case order.Uint64(b[sumOffset:]) != sum.Sum64():
		return Meta{}, errors.New("wrong checksum")
	case order.Uint32(b[4:]) != version:
		return Meta{}, fmt.Errorf("bbolt file version %d, this program knows %d: %w", order.Uint32(b[4:]), version,
			ErrForeign)
	case m.PageSize < minPageSize || m.PageSize > maxPageSize || m.PageSize&(m.PageSize-1) != 0:
		return Meta{}, fmt.Errorf("page size %d", m.PageSize)
	}
	return m, nil
}

// readMetas returns the valid meta pages. One of the two may be torn, by a crash while it was written.
func readMetas(r io.ReaderAt) ([]Meta, error) {
	var metas []Meta
	first, why, err := readMeta(r, 0)
	if err != nil {
		return nil, err
	}
	if why == nil {
		metas = append(metas, first)
		second, why, err := readMeta(r, int64(first.PageSize))
		if err != nil {
			return nil, err
		}
		if why == nil && second.PageSize == first.PageSize {
			metas = append(metas, second)
		}
		return metas, nil
	}
	// The page size is unknown if the first meta page is invalid, so all page sizes are tried.
	for size := int64(minPageSize); size <= maxPageSize; size *= 2 {
		second, no, err := readMeta(r, size)
		if err != nil {
			return nil, err
		}
		if no == nil && int64(second.PageSize) == size {
			return append(metas, second), nil
		}
	}
	return nil, classifyHead(r, why)
}

// readMeta returns the meta page at offset off. why is the reason why the page is invalid; err is a read error.
func readMeta(r io.ReaderAt, off int64) (m Meta, why, err error) {
	data := make([]byte, headerSize+metaSize)
	n, err := r.ReadAt(data, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return Meta{}, nil, err
	}
	m, why = parseMeta(data[:n])
	return m, why, nil
}

// classifyHead returns ErrDamaged or ErrForeign for a file without a valid meta page. A damaged bbolt file begins with
// the header of page 0, or with the fill pattern of a lost block.
func classifyHead(r io.ReaderAt, why error) error {
	if errors.Is(why, ErrForeign) {
		return why
	}
	head := make([]byte, headerSize)
	n, err := r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	head = head[:n]
	uniform := true
	for _, c := range head {
		uniform = uniform && c == head[0]
	}
	number := head[:min(n, 8)] // a page header begins with the page's id, which is 0 for the first page
	isMeta := n == headerSize && binary.NativeEndian.Uint16(head[8:]) == flagMeta
	if uniform || len(bytes.Trim(number, "\x00")) == 0 || isMeta {
		return fmt.Errorf("no valid meta page (%w): %w", why, ErrDamaged)
	}
	return fmt.Errorf("no valid meta page (%w): %w", why, ErrForeign)
}

func metaOf(r io.ReaderAt, txid uint64) (Meta, error) {
	metas, err := readMetas(r)
	if err != nil {
		return Meta{}, err
	}
	for _, m := range metas {
		if m.TxID == txid {
			return m, nil
		}
	}
	return Meta{}, fmt.Errorf("transaction %d: %w", txid, ErrOvertaken)
}

func newest(metas []Meta) Meta {
	best := metas[0]
	for _, m := range metas[1:] {
		if m.TxID > best.TxID {
			best = m
		}
	}
	return best
}
