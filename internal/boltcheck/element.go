package boltcheck

import (
	"bytes"
	"encoding/binary"
	"slices"
)

const (
	elementSize = 16
	// maxKey is bbolt's limit on the length of a key.
	maxKey = 32768
)

type element struct {
	key   []byte
	child uint64
	// flags, value and valueSize belong to an element of a leaf page. value is the offset of the value in the page.
	flags            uint32
	value, valueSize int64
}

// elements decodes the elements of the page into buf, or into new memory if buf is too small. It fails if an element
// extends beyond the page.
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

func (p *page) heads() ([]byte, error) {
	size := int64(p.count) * elementSize
	if headerSize+size > p.span {
		return nil, damaged("page %d has no room for %d elements", p.id, p.count)
	}
	return p.read(headerSize, size, nil)
}

// inOrder verifies that the keys of a page's elements ascend and lie in the range.
func (p *page) inOrder(elements []element, keys keyRange) error {
	low := keys.low
	for i, e := range elements {
		c := bytes.Compare(e.key, low)
		// Only the first key may equal low, which is the parent's copy of that key.
		if c < 0 || c == 0 && i > 0 || keys.high != nil && bytes.Compare(e.key, keys.high) >= 0 {
			return damaged("page %d: the key of element %d is out of order", p.id, i)
		}
		low = e.key
	}
	return nil
}

// spans verifies that the page has no more overflow pages than its elements need. bbolt frees a page with all its
// overflow pages, so a larger number would free other pages. One extra page is accepted if the elements fill their
// pages exactly, because bbolt before 1.4 allocated one.
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
