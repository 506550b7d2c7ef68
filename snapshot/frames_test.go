package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// What tests know of the format of a snapshot, to make files that nobody would write and to say where something is in a
// file. It is written from README.md, as the reader of spec_test.go, and shares no code with package snapshot.

const (
	magic    = "\x89LARDER\n"
	magicEnd = "\nREDRAL\x89"
	marker   = "\xa7LRD"
	ageMagic = "age-encryption.org/"

	formatNow = snapshot.FormatVersion

	digestSize = 32
	footerSize = 32
	fixedSize  = 44 // of a frame, before its head

	blockTarget = 256 << 10 // of a block, in bytes
	maxBody     = 16 << 20  // of a frame
	maxKey      = 32 << 10  // of a record; so do the next
	maxMark     = 1 << 10
	maxText     = 1 << 20 // of a frame in JSON

	bodyZstd = 1 // how a body is stored
)

// The encodings of a payload.
const (
	encodingMsgpack  = "msgpack"
	encodingProtobuf = "protobuf"
)

type fileID = [8]byte

type frameKind byte

const (
	kindManifest   frameKind = 'M'
	kindCollection frameKind = 'C'
	kindBlock      frameKind = 'B'
	kindPage       frameKind = 'X'
	kindEnd        frameKind = 'E'
	kindTail       frameKind = 'T'
)

func appendSized[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// cutSized is the inverse of appendSized.
func cutSized(data []byte) (s, rest []byte, ok bool) {
	size, n := binary.Uvarint(data)
	if n <= 0 || size > uint64(len(data)-n) {
		return nil, nil, false
	}
	end := n + int(size)
	return data[n:end:end], data[end:], true
}

func appendRecord(dst []byte, r entry.Entry) []byte {
	for _, text := range []string{r.Key, r.UID, r.ResourceVersion, r.Encoding, string(r.Payload)} {
		dst = appendSized(dst, text)
	}
	return dst
}

// prologue begins a file.
type prologue struct {
	version uint32
	id      fileID
	larder  string
}

func (p prologue) append(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(append(dst, magic...), p.version)
	dst = append(append(append(dst, p.id[:]...), byte(len(p.larder))), p.larder...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// idOf is the id in every frame of a file, and at is where the first frame begins.
func idOf(data []byte) (id fileID, at int) {
	id = fileID(data[len(magic)+4:])
	return id, len(magic) + 4 + len(id) + 1 + int(data[len(magic)+4+len(id)]) + 4
}

// footer ends a file, and says where the tail is.
type footer struct {
	span
	id fileID
}

func (f footer) append(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, f.offset)
	dst = append(binary.BigEndian.AppendUint32(dst, uint32(f.length)), f.id[:]...)
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	return append(dst, magicEnd...)
}

// frameHead is the fixed part of a frame.
type frameHead struct {
	id               fileID
	kind             frameKind
	compression      byte
	number           uint32
	headSize, stored uint32
	size             uint32 // of the body, not compressed
	offset           uint64
}

// total is the size of the whole frame.
func (h frameHead) total() int { return fixedSize + int(h.headSize) + int(h.stored) + digestSize }

// append appends the frame with head and body as it is stored.
func (h frameHead) append(dst, head, body []byte) []byte {
	start := len(dst)
	dst = append(append(dst, marker...), h.id[:]...)
	dst = append(dst, byte(h.kind), h.compression, 0, 0)
	for _, n := range []uint32{h.number, uint32(len(head)), uint32(len(body)), h.size} {
		dst = binary.BigEndian.AppendUint32(dst, n)
	}
	dst = binary.BigEndian.AppendUint64(dst, h.offset)
	sum := crc32.Update(crc32.Checksum(dst[start:], castagnoli), castagnoli, head)
	dst = binary.BigEndian.AppendUint32(dst, sum)
	dst = append(append(dst, head...), body...)
	digest := sha256.Sum256(dst[start:])
	return append(dst, digest[:]...)
}

// mustFixed reads the fixed part of a frame that is whole.
func mustFixed(data []byte) frameHead {
	if string(data[:len(marker)]) != marker {
		panic("there is no frame where one should begin")
	}
	number := func(at int) uint32 { return binary.BigEndian.Uint32(data[at:]) }
	return frameHead{
		id: fileID(data[4:]), kind: frameKind(data[12]), compression: data[13],
		number: number(16), headSize: number(20), stored: number(24), size: number(28),
		offset: binary.BigEndian.Uint64(data[32:]),
	}
}

// frame is one taken apart.
type frame struct {
	frameHead
	head, body []byte // not compressed
}

// framesIn takes a snapshot apart that is whole.
func framesIn(t testing.TB, data []byte) (out []frame) {
	t.Helper()
	u, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, at := idOf(data); at < len(data)-footerSize; {
		h := mustFixed(data[at:])
		f := frame{h, data[at+fixedSize:][:h.headSize], data[at+fixedSize+int(h.headSize):][:h.stored]}
		if h.compression != 0 {
			if f.body, err = u.DecodeAll(f.body, nil); err != nil {
				t.Fatal(err)
			}
		}
		f.head, f.body = bytes.Clone(f.head), bytes.Clone(f.body)
		out = append(out, f)
		at += h.total()
	}
	return out
}

// blockHead is the head of a block.
type blockHead struct {
	collection, count uint64
	first, last       string
}

func (h blockHead) append(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, h.collection), h.count)
	return appendSized(appendSized(dst, h.first), h.last)
}

// parseBlockHead is the inverse, as far as head is one.
func parseBlockHead(head []byte) (h blockHead) {
	for _, v := range []*uint64{&h.collection, &h.count} {
		n := 0
		if *v, n = binary.Uvarint(head); n <= 0 {
			return h
		}
		head = head[n:]
	}
	first, head, _ := cutSized(head)
	last, _, _ := cutSized(head)
	h.first, h.last = string(first), string(last)
	return h
}

// span is where a frame is.
type span struct{ offset, length uint64 }

func (s span) append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, s.offset), s.length)
}

// indexEntry is a block in a page of the index.
type indexEntry struct {
	first, last string
	span
	count  uint64
	digest [digestSize]byte
}

func (e indexEntry) append(dst []byte) []byte {
	dst = e.span.append(appendSized(appendSized(dst, e.first), e.last))
	return append(binary.AppendUvarint(dst, e.count), e.digest[:]...)
}

// pageRef is a page of the index in the tail, and collectionRef a collection.
type pageRef struct {
	span
	first string // the first key of its first block
}

type collectionRef struct {
	pages []pageRef
	end   span
}

func (r collectionRef) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(r.pages)))
	for _, p := range r.pages {
		dst = p.span.append(appendSized(dst, p.first))
	}
	return r.end.append(dst)
}

// encoder compresses bodies.
var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		panic(err)
	}
	return e
})
