package layout

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/larder-dev/larder/entry"
)

// Version is the version of the snapshot file's format.
const Version = 1

// The magic numbers, sizes and limits of the format, which snapshot/README.md explains.
const (
	Magic    = "\x89LARDER\n"
	magicEnd = "\nREDRAL\x89"

	idSize     = 8
	DigestSize = 32
	FooterSize = 8 + 4 + idSize + DigestSize + 4 + len(magicEnd)
	// MaxPrologue is the maximum size of the prologue: magic, version, file id, length and text of the version, CRC.
	MaxPrologue   = prologueFixed + MaxLarder + 4
	prologueFixed = len(Magic) + 4 + idSize + 1
	// MaxLarder is the maximum length of the text of the Larder version in the prologue.
	MaxLarder = 255

	// BlockTarget is the target size of the records in a block: the record that reaches this size is the block's last.
	BlockTarget = 256 << 10
	// MaxPart bounds the size of a block before compression (so of a record), of a collection's index, and of the catalog.
	MaxPart = 16 << 20
	// MaxKey bounds the key of a record, in bytes.
	MaxKey = 32 << 10
	// MaxMark bounds the UID, the resourceVersion and the encoding of a record, in bytes.
	MaxMark = 1 << 10
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// Digest is a SHA-256.
type Digest = [DigestSize]byte

// ID is the random id of a snapshot file, in its prologue and its footer. A snapshot that is stored inside an object
// has another ID, so its footer is not mistaken for the file's.
type ID [idSize]byte

// NewID returns a random ID.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails, by the documentation of crypto/rand
	return id
}

// Prologue is the start of a snapshot file. It has the same layout in every version of the format.
type Prologue struct {
	Version uint32
	ID      ID
	Larder  string
}

// Append appends the encoded prologue to dst.
func (p Prologue) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, Magic...)
	dst = binary.BigEndian.AppendUint32(dst, p.Version)
	dst = append(dst, p.ID[:]...)
	dst = append(dst, byte(len(p.Larder)))
	dst = append(dst, p.Larder...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], crcTable))
}

var (
	// ErrMagic: the data does not begin like a snapshot.
	ErrMagic = errors.New("there is no magic number")
	// ErrPrologue: the data is a snapshot whose prologue is damaged.
	ErrPrologue = errors.New("its first bytes are not what was written (checksum)")
)

// ParsePrologue parses the prologue at the start of data, which must have MaxPrologue bytes, or be the whole file if
// that is shorter. size is the size of the prologue.
func ParsePrologue(data []byte) (p Prologue, size int, err error) {
	if short := min(len(data), len(Magic)); short == 0 || string(data[:short]) != Magic[:short] {
		return p, 0, ErrMagic
	}
	if len(data) < prologueFixed || len(data) < prologueFixed+int(data[prologueFixed-1])+4 {
		return p, 0, ErrPrologue
	}
	text := prologueFixed + int(data[prologueFixed-1])
	if crc32.Checksum(data[:text], crcTable) != binary.BigEndian.Uint32(data[text:]) {
		return p, 0, ErrPrologue
	}
	p.Version = binary.BigEndian.Uint32(data[len(Magic):])
	p.ID = ID(data[len(Magic)+4:])
	p.Larder = string(data[prologueFixed:text])
	return p, text + 4, nil
}

// Footer is the end of a snapshot file. It locates the catalog.
type Footer struct {
	// Catalog is the offset of the catalog in the file. Length is the catalog's size.
	Catalog uint64
	Length  uint32
	ID      ID
	// Digest is the SHA-256 of the catalog. It covers the whole contents, since the catalog has the digests of all parts.
	Digest Digest
}

// Append appends the encoded footer, FooterSize bytes, to dst.
func (f Footer) Append(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, f.Catalog)
	dst = binary.BigEndian.AppendUint32(dst, f.Length)
	dst = append(dst, f.ID[:]...)
	dst = append(dst, f.Digest[:]...)
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], crcTable))
	return append(dst, magicEnd...)
}

// ParseFooter parses the last FooterSize bytes of a file. ok is false if they are not a footer.
func ParseFooter(data []byte) (f Footer, ok bool) {
	const sum = FooterSize - 4 - len(magicEnd)
	if len(data) != FooterSize || !bytes.HasSuffix(data, []byte(magicEnd)) ||
		crc32.Checksum(data[:sum], crcTable) != binary.BigEndian.Uint32(data[sum:]) {
		return f, false
	}
	return Footer{
		Catalog: binary.BigEndian.Uint64(data), Length: binary.BigEndian.Uint32(data[8:]), ID: ID(data[12:]),
		Digest: Digest(data[12+idSize:]),
	}, true
}

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

// AppendBlock appends the index entry of a block to dst.
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

// AppendRecord appends key, UID, resourceVersion, encoding and payload, each preceded by its length.
func AppendRecord(dst []byte, r entry.Entry) []byte {
	dst = appendSized(dst, r.Key)
	dst = appendSized(dst, r.UID)
	dst = appendSized(dst, r.ResourceVersion)
	dst = appendSized(dst, r.Encoding)
	return appendSized(dst, r.Payload)
}

// RecordSize returns an upper bound of the number of bytes that AppendRecord appends.
func RecordSize(r entry.Entry) int {
	return len(r.Key) + len(r.UID) + len(r.ResourceVersion) + len(r.Encoding) + len(r.Payload) + 5*binary.MaxVarintLen32
}

// LongestMark returns the length of the longest of a record's UID, resourceVersion and encoding.
func LongestMark(r entry.Entry) int {
	return max(len(r.UID), len(r.ResourceVersion), len(r.Encoding))
}

// CutRecord parses the first record of a block, and returns the record and the rest. The payload is a slice of data.
func CutRecord(data []byte) (r entry.Entry, rest []byte, ok bool) {
	var key, uid, rv, encoding []byte
	for _, field := range []*[]byte{&key, &uid, &rv, &encoding, &r.Payload} {
		if *field, data, ok = cutSized(data); !ok {
			return entry.Entry{}, nil, false
		}
	}
	r.Key, r.UID, r.ResourceVersion, r.Encoding = string(key), string(uid), string(rv), encodingName(encoding)
	return r, data, true
}

// encodingName converts the name of an encoding to a string. Known encodings cause no allocation.
func encodingName(b []byte) string {
	switch string(b) {
	case "msgpack":
		return "msgpack"
	case "protobuf":
		return "protobuf"
	}
	return string(b)
}

// Check verifies the records of an uncompressed block, so that CutRecord can cut them one by one. Number, order, first
// and last key must match the index. wrong describes a defect; "" for none.
func (b Block) Check(data []byte) (wrong string) {
	last, n := "", 0
	for len(data) > 0 {
		r, rest, ok := CutRecord(data)
		switch {
		case !ok:
			return "a record in it cannot be read"
		case r.Key <= last:
			return "its keys are not in order"
		case n == 0 && r.Key != b.First:
			return notNamed
		case len(r.Key) > MaxKey:
			return fmt.Sprintf("a key of %d bytes is longer than the %d that are allowed", len(r.Key), MaxKey)
		case LongestMark(r) > MaxMark:
			return fmt.Sprintf("a UID, resourceVersion or encoding of %d bytes is longer than the %d that are allowed",
				LongestMark(r), MaxMark)
		}
		data, last = rest, r.Key
		n++
	}
	if n != b.Count || last != b.Last {
		return notNamed
	}
	return ""
}

const notNamed = "its records are not those that the index names"

func appendSized[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// cutSized cuts the first length-prefixed value off data. Its results are slices of data.
func cutSized(data []byte) (s, rest []byte, ok bool) {
	size, n := binary.Uvarint(data)
	if n <= 0 || size > uint64(len(data)-n) {
		return nil, nil, false
	}
	end := n + int(size)
	return data[n:end:end], data[end:], true
}

// encoderWindow is the window size of the zstd encoder. It covers all blocks, except those with very large records.
const encoderWindow = 512 << 10

// Compressor compresses blocks. Only one goroutine may use it at a time.
type Compressor struct {
	encoder *zstd.Encoder
	out     []byte
}

// NewCompressor returns a Compressor, whose tables take some MiB.
func NewCompressor() (*Compressor, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(encoderWindow))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Compressor{encoder: e}, nil
}

// Compress returns the block, compressed if that saves bytes. The result is valid until the next call.
func (c *Compressor) Compress(body []byte) []byte {
	c.out = c.encoder.EncodeAll(body, Reuse(c.out))
	if len(c.out) >= len(body) {
		return body
	}
	return c.out
}

// Reuse returns b with length 0 for reuse, or nil if a large record has made b too large to keep.
func Reuse(b []byte) []byte {
	if cap(b) > 4*BlockTarget {
		return nil
	}
	return b[:0]
}

// Decompressor decompresses blocks. Only one goroutine may use it at a time.
type Decompressor struct {
	decoder *zstd.Decoder
	out     []byte
}

// NewDecompressor returns a Decompressor.
func NewDecompressor() (*Decompressor, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxPart), zstd.WithDecoderMaxWindow(MaxPart), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Decompressor{decoder: d}, nil
}

// Decompress decompresses a stored block to exactly size bytes. The result is valid until the next call.
func (d *Decompressor) Decompress(stored []byte, size int) ([]byte, error) {
	if size == len(stored) {
		return stored, nil
	}
	if cap(d.out) < size || size <= BlockTarget && Reuse(d.out) == nil {
		d.out = make([]byte, 0, max(size, min(2*cap(d.out), BlockTarget+BlockTarget/4)))
	}
	out, err := d.decoder.DecodeAll(stored, d.out[:0:size])
	if err != nil {
		return nil, err
	}
	if len(out) != size {
		return nil, fmt.Errorf("it has %d bytes, not the %d that were announced", len(out), size)
	}
	return out, nil
}
