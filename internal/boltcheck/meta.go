package boltcheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// ErrDamaged: the contents of the file are not as bbolt wrote them.
var ErrDamaged = errors.New("damaged bbolt file")

// ErrForeign: the file does not begin like a bbolt file, or it was written with options that Larder does not use.
var ErrForeign = errors.New("not a bbolt file")

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
