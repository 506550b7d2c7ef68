package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// frameKind says what a frame holds.
type frameKind byte

const (
	kindManifest   frameKind = 'M' // Header, in JSON
	kindCollection frameKind = 'C' // Collection, in JSON
	kindBlock      frameKind = 'B' // records
	kindPage       frameKind = 'X' // index entries of the blocks since the last page
	kindEnd        frameKind = 'E' // the collection's State and counts, in JSON
	kindTail       frameKind = 'T' // where all this is
)

// maxBody returns how large a body of the kind may be before compression, in bytes.
func (k frameKind) maxBody() int {
	switch k {
	case kindManifest, kindCollection, kindEnd:
		return maxText
	case kindPage:
		return maxPage
	case kindBlock, kindTail:
		return maxBody
	}
	return 0
}

// packs says whether the body of frames of the kind may be compressed. What is kept of a file in memory is not, so that
// its size bounds it.
func (k frameKind) packs() bool { return k == kindBlock || k == kindPage || k == kindTail }

const (
	marker    = "\xa7LRD"
	fixedSize = 44
	// frameMin is the size of the smallest frame.
	frameMin = fixedSize + digestSize

	bodyPlain = 0
	bodyZstd  = 1
)

// frameHead is the fixed part of a frame and its head. A frame is
//
//	 0   4  marker
//	 4   8  file id
//	12   1  kind
//	13   1  compression of the body
//	14   2  0
//	16   4  number of the frame
//	20   4  size of the head
//	24   4  size of the body as it is here
//	28   4  size of the body
//	32   8  offset of the frame
//	40   4  CRC-32C of the 40 bytes before and of the head
//	44      head, body
//	    32  SHA-256 of all before
//
// with numbers in big endian.
type frameHead struct {
	id          fileID
	kind        frameKind
	compression byte
	number      uint32
	headSize    uint32
	stored      uint32
	size        uint32
	offset      uint64
}

// total is the size of the whole frame.
func (h frameHead) total() int { return fixedSize + int(h.headSize) + int(h.stored) + digestSize }

// append appends the frame with head and body as it is stored.
func (h frameHead) append(dst, head, body []byte) []byte {
	start := len(dst)
	dst = append(dst, marker...)
	dst = append(dst, h.id[:]...)
	dst = append(dst, byte(h.kind), h.compression, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, h.number)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(head)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	dst = binary.BigEndian.AppendUint32(dst, h.size)
	dst = binary.BigEndian.AppendUint64(dst, h.offset)
	sum := crc32.Update(crc32.Checksum(dst[start:], crcTable), crcTable, head)
	dst = binary.BigEndian.AppendUint32(dst, sum)
	dst = append(append(dst, head...), body...)
	digest := sha256.Sum256(dst[start:])
	return append(dst, digest[:]...)
}

// parseFixed reads the fixed part of a frame, which is not verified, and says what is wrong with it.
func parseFixed(data []byte) (h frameHead, wrong string) {
	if len(data) < fixedSize || string(data[:4]) != marker {
		return h, "there is no block where one should begin"
	}
	h = frameHead{
		id: fileID(data[4:]), kind: frameKind(data[12]), compression: data[13],
		number: binary.BigEndian.Uint32(data[16:]), headSize: binary.BigEndian.Uint32(data[20:]),
		stored: binary.BigEndian.Uint32(data[24:]), size: binary.BigEndian.Uint32(data[28:]),
		offset: binary.BigEndian.Uint64(data[32:]),
	}
	limit := uint32(h.kind.maxBody())
	switch {
	case h.headSize > maxHead:
		return h, fmt.Sprintf("its head of %d bytes is larger than the %d that are allowed", h.headSize, maxHead)
	case h.size > limit || h.stored > limit:
		return h, fmt.Sprintf("its body of %d bytes (%d stored) is larger than the %d that are allowed", h.size, h.stored,
			limit)
	}
	return h, ""
}

// frame is one that was verified. Its slices are part of the buffers that it was read into.
type frame struct {
	frameHead
	head   []byte
	body   []byte // not compressed
	digest [digestSize]byte
}

// place is where a frame must be, and in which file.
type place struct {
	id     fileID
	offset uint64
	// number is that of the frame; -1 is any.
	number int64
}

// headOf verifies the fixed part and the head at the beginning of data and returns both, or what is wrong with them.
func headOf(data []byte, p place) (h frameHead, head []byte, wrong string) {
	h, wrong = parseFixed(data)
	if wrong != "" {
		return h, nil, wrong
	}
	if len(data) < fixedSize+int(h.headSize) {
		return h, nil, "it is cut short"
	}
	head = data[fixedSize : fixedSize+int(h.headSize)]
	sum := crc32.Update(crc32.Checksum(data[:fixedSize-4], crcTable), crcTable, head)
	switch {
	case sum != binary.BigEndian.Uint32(data[fixedSize-4:]):
		return h, nil, "its head is not what was written (checksum)"
	case h.id != p.id:
		return h, nil, "it is of another snapshot"
	case h.offset != p.offset:
		return h, head, fmt.Sprintf("it was written at offset %d", h.offset)
	case p.number >= 0 && int64(h.number) != p.number:
		return h, head, fmt.Sprintf("it was written as block %d", h.number)
	case data[14] != 0 || data[15] != 0 || h.compression > bodyZstd || h.compression != bodyPlain && !h.kind.packs():
		return h, head, "it is compressed in a way that this program does not know"
	}
	return h, head, ""
}

// open verifies the digest of the frame in data, which begins with it, and takes it apart. The body is unpacked into
// buf where it is compressed.
func (h frameHead) open(data, head []byte, unpack *unpacker) (f frame, wrong string) {
	if len(data) < h.total() {
		return f, "it is cut short"
	}
	end := h.total() - digestSize
	f = frame{frameHead: h, head: head, body: data[end-int(h.stored) : end], digest: sha256.Sum256(data[:end])}
	if string(f.digest[:]) != string(data[end:h.total()]) {
		return f, "it is not what was written (SHA-256)"
	}
	if h.compression == bodyPlain {
		if h.size != h.stored {
			return f, "its body is not as long as it says"
		}
		return f, ""
	}
	body, err := unpack.unpack(f.body, int(h.size))
	if err != nil {
		return f, "its body cannot be unpacked: " + err.Error()
	}
	f.body = body
	return f, ""
}
