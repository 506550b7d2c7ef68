package boltcheck

import (
	"bytes"
	"encoding/binary"
	"slices"
)

const (
	elementSize = 16 // of an element of a branch page, and of a leaf page
	// maxKey is bbolt's bound on the length of a key.
	maxKey = 32768
)

// element is an entry of a branch or leaf page.
type element struct {
	key []byte
	// child is the page that a branch's element points to.
	child uint64
	// flags, value (an offset in the page) and valueSize are a leaf's.
	flags            uint32
	value, valueSize int64
}

// elements decodes the entries of the page, and verifies that they lie in it. It uses buf if that is large enough.
func (p *page) elements(buf []element) ([]element, error) {
	heads, err := p.heads()
	if err != nil {
		return nil, err
	}
	order := binary.NativeEndian
	elements := slices.Grow(buf[:0], p.count)[:p.count]
	for i := range elements {
		h, at := heads[i*elementSize:], int64(headerSize+i*elementSize)
		e := &elements[i]
		*e = element{}
		var pos, keySize int64
		if p.flags == flagBranch {
			pos, keySize, e.child = int64(order.Uint32(h)), int64(order.Uint32(h[4:])), order.Uint64(h[8:])
		} else {
			e.flags, pos = order.Uint32(h), int64(order.Uint32(h[4:]))
			keySize, e.valueSize = int64(order.Uint32(h[8:])), int64(order.Uint32(h[12:]))
		}
		e.value = at + pos + keySize
		switch {
		case e.flags > flagBucket:
			return nil, damaged("page %d: element %d has flags %#x", p.id, i, e.flags)
		case keySize == 0 || keySize > maxKey:
			return nil, damaged("page %d: element %d has a key of %d bytes", p.id, i, keySize)
		case at+pos < int64(headerSize+p.count*elementSize) || e.value+e.valueSize > p.span:
			return nil, damaged("page %d: element %d lies outside of it", p.id, i)
		}
		if e.key, err = p.read(at+pos, keySize, nil); err != nil {
			return nil, err
		}
	}
	return elements, nil
}

// heads returns the fixed part of the page's entries.
func (p *page) heads() ([]byte, error) {
	size := int64(p.count) * elementSize
	if headerSize+size > p.span {
		return nil, damaged("page %d has no room for %d elements", p.id, p.count)
	}
	return p.read(headerSize, size, nil)
}

// inOrder verifies that the keys ascend and lie in the range.
func (p *page) inOrder(elements []element, keys keyRange) error {
	low := keys.low
	for i, e := range elements {
		c := bytes.Compare(e.key, low)
		// Only the first key may equal the bound, which is its parent's copy of it.
		if c < 0 || c == 0 && i > 0 || keys.high != nil && bytes.Compare(e.key, keys.high) >= 0 {
			return damaged("page %d: the key of element %d is out of order", p.id, i)
		}
		low = e.key
	}
	return nil
}

// spans verifies that the page has as many overflow pages as its elements take, or one more: bbolt before 1.4 gave one
// more to what filled its pages exactly. bbolt frees them all with the page, so too many would be pages of others.
func (p *page) spans(elements []element, pageSize int) error {
	end := int64(headerSize)
	for _, e := range elements {
		end = max(end, e.value+e.valueSize)
	}
	if most := uint64(end) / uint64(pageSize); p.overflow > most {
		return damaged("page %d has %d overflow pages, and its elements take %d", p.id, p.overflow, most)
	}
	return nil
}
