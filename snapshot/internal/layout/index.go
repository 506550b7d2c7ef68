package layout

import (
	"encoding/binary"
	"math"
)

// Block describes a block of records, as the index of its collection lists it.
type Block struct {
	// First and Last are the keys of the block's first and last records. Count is the number of its records.
	First, Last string
	Count       int
	// Size is the size of the records in bytes. Stored is their size in the file, which compression makes smaller.
	Size, Stored int
	// Digest is the SHA-256 of the block's bytes in the file.
	Digest Digest
	// Offset is the offset of the block in the file. The index does not contain it, because blocks lie without gaps.
	Offset int64
}

func AppendBlock(dst []byte, b Block) []byte {
	dst = appendSized(appendSized(dst, b.First), b.Last)
	for _, n := range []int{b.Count, b.Size, b.Stored} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return append(dst, b.Digest[:]...)
}

// ParseIndex parses the index of a collection whose blocks fill the file from begin to end. wrong describes a defect.
func ParseIndex(data []byte, begin, end int64) (blocks []Block, wrong string) {
	last := ""
	for len(data) > 0 {
		b, rest, ok := cutBlock(data)
		switch {
		case !ok:
			return nil, "it cannot be read"
		case b.First <= last || b.Last < b.First:
			return nil, "the keys in it are not in order"
		case b.Size > MaxPart || b.Stored > b.Size || b.Count < 1 || b.Count > b.Size || int64(b.Stored) > end-begin:
			return nil, "it names a block that cannot be"
		}
		b.Offset = begin
		begin += int64(b.Stored)
		blocks, data, last = append(blocks, b), rest, b.Last
	}
	if begin != end {
		return nil, "its blocks are not those before it"
	}
	return blocks, ""
}

func cutBlock(data []byte) (b Block, rest []byte, ok bool) {
	first, data, ok := cutSized(data)
	if !ok {
		return b, nil, false
	}
	last, data, ok := cutSized(data)
	if !ok {
		return b, nil, false
	}
	b.First, b.Last = string(first), string(last)
	for _, v := range []*int{&b.Count, &b.Size, &b.Stored} {
		n, width := binary.Uvarint(data)
		if width <= 0 || n > math.MaxInt32 {
			return b, nil, false
		}
		*v, data = int(n), data[width:]
	}
	if len(data) < DigestSize {
		return b, nil, false
	}
	b.Digest = Digest(data)
	return b, data[DigestSize:], true
}
