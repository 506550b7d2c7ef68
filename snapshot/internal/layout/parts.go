package layout

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
)

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

type Digest = [DigestSize]byte

// ID is the random id of a snapshot file, in its prologue and its footer. A snapshot that is stored inside an object
// has another ID, so its footer is not mistaken for the file's.
type ID [idSize]byte

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

func (f Footer) Append(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, f.Catalog)
	dst = binary.BigEndian.AppendUint32(dst, f.Length)
	dst = append(dst, f.ID[:]...)
	dst = append(dst, f.Digest[:]...)
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], crcTable))
	return append(dst, magicEnd...)
}

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
