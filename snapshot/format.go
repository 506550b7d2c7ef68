package snapshot

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"

	"github.com/larder-dev/larder/entry"
)

// FormatVersion is the version of the format of the files that Writer writes.
const FormatVersion = formatNow

// The numbers of the format: README.md explains them.
const (
	magic    = "\x89LARDER\n"
	magicEnd = "\nREDRAL\x89"
	// formatNow is the version that Writer writes.
	formatNow = 1

	idSize     = 8
	digestSize = 32
	footerSize = 32
	// prologueMax bounds the prologue: magic, version, file id, length and text of the Larder version, CRC.
	prologueFixed = len(magic) + 4 + idSize + 1
	prologueMax   = prologueFixed + 255 + 4

	// blockTarget is the size of the records in a block: it is closed by the record that reaches it.
	blockTarget = 256 << 10
	// maxBody bounds what is in a frame, before compression, and so the size of a record.
	maxBody = 16 << 20
	// maxHead bounds the head of a frame, maxText a frame in JSON, maxKey a key.
	maxHead = 72 << 10
	maxText = 1 << 20
	maxKey  = 32 << 10
	// maxMark bounds each of what a record has beside key and payload: UID, resourceVersion and encoding.
	maxMark = 1 << 10
	// maxCollections bounds how many there are.
	maxCollections = 1 << 16
	// pageTarget is the size of an index page: it is closed by the entry that reaches it. maxPage bounds one.
	pageTarget = 32 << 10
	maxPage    = 128 << 10
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// fileID is in every frame, so that what looks like a frame inside of an object is not taken for one.
type fileID [idSize]byte

func newFileID() (id fileID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// format is what differs between the versions of the format. All else is the same in every version.
type format struct {
	// cutRecord takes the first record off a block's body. What it returns may be part of data.
	cutRecord func(data []byte) (r entry.Entry, rest []byte, ok bool)
	// header and collection read the JSON of those frames.
	header     func(data []byte) (Header, error)
	collection func(data []byte) (Collection, error)
}

// formats are those that this program reads: the current one, and from version 2 on the one before.
func formats() map[uint32]format {
	return map[uint32]format{
		formatNow: {cutRecord: cutRecord, header: parseHeader, collection: parseCollection},
	}
}

// prologue begins a file. It has the same layout in every version of the format.
type prologue struct {
	version uint32
	id      fileID
	larder  string
}

func (p prologue) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint32(dst, p.version)
	dst = append(dst, p.id[:]...)
	dst = append(dst, byte(len(p.larder)))
	dst = append(dst, p.larder...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], crcTable))
}

// parsePrologue reads the prologue at the beginning of data, which has prologueMax bytes or is the whole file, and says
// how long it is.
func parsePrologue(data []byte, known map[uint32]format) (p prologue, size int, err error) {
	if !bytes.HasPrefix(data, []byte(magic)) {
		if len(data) < len(magic) && len(data) > 0 && bytes.HasPrefix([]byte(magic), data) {
			return p, 0, &DamageError{Block: -1, Reason: "it ends within its first bytes"}
		}
		return p, 0, ErrNotSnapshot
	}
	if len(data) < prologueFixed || len(data) < prologueFixed+int(data[prologueFixed-1])+4 {
		return p, 0, &DamageError{Block: -1, Reason: "it ends within its first bytes"}
	}
	text := prologueFixed + int(data[prologueFixed-1])
	if crc32.Checksum(data[:text], crcTable) != binary.BigEndian.Uint32(data[text:]) {
		return p, 0, &DamageError{Block: -1, Reason: "its first bytes are not what was written (checksum)"}
	}
	p.version = binary.BigEndian.Uint32(data[len(magic):])
	p.id = fileID(data[len(magic)+4:])
	p.larder = string(data[prologueFixed:text])
	if _, ok := known[p.version]; !ok {
		newest := uint32(0)
		for v := range known {
			newest = max(newest, v)
		}
		return p, 0, &FormatError{Format: p.version, Newest: newest, Larder: p.larder}
	}
	return p, text + 4, nil
}

// footer ends a file.
type footer struct {
	offset uint64 // of the tail frame
	length uint32 // of the tail frame
	id     fileID
}

func (f footer) append(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, f.offset)
	dst = binary.BigEndian.AppendUint32(dst, f.length)
	dst = append(dst, f.id[:]...)
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], crcTable))
	return append(dst, magicEnd...)
}

// parseFooter reads footerSize bytes.
func parseFooter(data []byte) (f footer, ok bool) {
	if len(data) != footerSize || string(data[24:]) != magicEnd ||
		crc32.Checksum(data[:20], crcTable) != binary.BigEndian.Uint32(data[20:]) {
		return f, false
	}
	return footer{
		offset: binary.BigEndian.Uint64(data), length: binary.BigEndian.Uint32(data[8:]), id: fileID(data[12:]),
	}, true
}
