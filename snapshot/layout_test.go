package snapshot_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// The code in this file forges invalid files and finds the parts of a file. It follows README.md and shares no code
// with package snapshot.

const (
	magic    = "\x89LARDER\n"
	magicEnd = "\nREDRAL\x89"
	ageMagic = "age-encryption.org/"

	formatNow = snapshot.FormatVersion

	digestSize = 32
	footerSize = 64

	blockTarget = 256 << 10 // bytes of records that close a block
	maxPart     = 16 << 20  // maximum bytes of a block, an index or the catalog
	maxKey      = 32 << 10  // maximum bytes of a record's key
	maxMark     = 1 << 10
)

const (
	encodingMsgpack  = "msgpack"
	encodingProtobuf = "protobuf"
)

type fileID = [8]byte

func appendSized[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendRecord(dst []byte, r entry.Entry) []byte {
	for _, text := range []string{r.Key, r.UID, r.ResourceVersion, r.Encoding, string(r.Payload)} {
		dst = appendSized(dst, text)
	}
	return dst
}

// rawFile describes a snapshot file to forge. Fields that are not set get valid values.
type rawFile struct {
	header      string
	collections []rawCollection
	documents   []rawDocument
	// catalog, if set, replaces the valid catalog. change, if set, changes the footer.
	catalog string
	change  func(f *rawFooter)
}

type rawFooter struct {
	catalog uint64
	length  uint32
	id      fileID
	digest  [digestSize]byte
}

type rawCollection struct {
	text   string // JSON of the collection's description, without the closing brace
	blocks []rawBlock
	index  []byte
	// change, if set, changes the collection's sizes and digest in the catalog.
	change func(stored, index *int64, digest *[digestSize]byte)
}

type rawDocument struct {
	name   string
	size   int
	stored []byte
	// change, if set, changes the document's sizes and digest in the catalog.
	change func(size, stored *int64, digest *[digestSize]byte)
}

type rawBlock struct {
	first, last string
	count       int
	size        uint64
	stored      []byte
	change      func(b *rawBlock, digest *[digestSize]byte) // if set, changes the block's entry in the index
}

func rawOf(records ...entry.Entry) rawBlock {
	b := rawBlock{count: len(records), first: records[0].Key, last: records[len(records)-1].Key}
	for _, r := range records {
		b.stored = appendRecord(b.stored, r)
	}
	b.size = uint64(len(b.stored))
	return b
}

func (b rawBlock) appendIndex(dst []byte) []byte {
	digest := sha256.Sum256(b.stored)
	if b.change != nil {
		b.change(&b, &digest)
	}
	dst = appendSized(appendSized(dst, b.first), b.last)
	for _, n := range []uint64{uint64(b.count), b.size, uint64(len(b.stored))} {
		dst = binary.AppendUvarint(dst, n)
	}
	return append(dst, digest[:]...)
}

func (f rawFile) bytes() []byte {
	const larder = "x"
	id := fileID{1}
	out := binary.BigEndian.AppendUint32([]byte(magic), formatNow)
	out = append(append(append(out, id[:]...), byte(len(larder))), larder...)
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
	var texts []string
	for _, c := range f.collections {
		begin, index := len(out), c.index
		for _, b := range c.blocks {
			out = append(out, b.stored...)
			if c.index == nil {
				index = b.appendIndex(index)
			}
		}
		stored, length, digest := int64(len(out)-begin), int64(len(index)), sha256.Sum256(index)
		if c.change != nil {
			c.change(&stored, &length, &digest)
		}
		out = append(out, index...)
		texts = append(texts, fmt.Sprintf(`%s,"stored":%d,"index":%d,"indexDigest":%q}`, c.text, stored, length,
			base64.StdEncoding.EncodeToString(digest[:])))
	}
	var documents []string
	for _, d := range f.documents {
		size, stored, digest := int64(d.size), int64(len(d.stored)), sha256.Sum256(d.stored)
		if d.change != nil {
			d.change(&size, &stored, &digest)
		}
		out = append(out, d.stored...)
		documents = append(documents, fmt.Sprintf(`{"name":%q,"size":%d,"stored":%d,"digest":%q}`, d.name, size, stored,
			base64.StdEncoding.EncodeToString(digest[:])))
	}
	catalog := f.catalog
	if catalog == "" {
		catalog = fmt.Sprintf(`{"header":{%s},"collections":[%s],"documents":[%s]}`, f.header, strings.Join(texts, ","),
			strings.Join(documents, ","))
	}
	foot := rawFooter{uint64(len(out)), uint32(len(catalog)), id, sha256.Sum256([]byte(catalog))}
	if f.change != nil {
		f.change(&foot)
	}
	return foot.append(append(out, catalog...))
}

func (f rawFooter) append(dst []byte) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(dst, f.catalog), f.length)
	dst = append(append(dst, f.id[:]...), f.digest[:]...)
	return append(binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli)), magicEnd...)
}

type partKind byte

const (
	kindPrologue partKind = 'P'
	kindBlock    partKind = 'B'
	kindIndex    partKind = 'X'
	kindDocument partKind = 'D'
	kindCatalog  partKind = 'T'
	kindFooter   partKind = 'F'
)

// part is one part of a snapshot file. number is the number of a block, and -1 for other parts.
type part struct {
	kind       partKind
	start, end int
	number     int
	first      string // first key of a block, or name of a document
}

func partsOf(data []byte) (out []part) {
	at := len(magic) + 4 + 8
	at += 1 + int(data[at]) + 4
	out = []part{{kind: kindPrologue, end: at, number: -1}}
	add := func(kind partKind, length, number int, first string) {
		out = append(out, part{kind, at, at + length, number, first})
		at += length
	}
	catalog := int(binary.BigEndian.Uint64(data[len(data)-footerSize:]))
	var c struct {
		Collections []struct{ Stored, Index int }
		Documents   []struct {
			Name   string
			Stored int
		}
	}
	if err := json.Unmarshal(data[catalog:len(data)-footerSize], &c); err != nil {
		panic(err)
	}
	number := 0
	for _, c := range c.Collections {
		for index := data[at+c.Stored:][:c.Index]; len(index) > 0; number++ {
			first := specText(&index)
			_, _, _ = specText(&index), specUvarint(&index), specUvarint(&index)
			length := specUvarint(&index)
			add(kindBlock, length, number, first)
			index = index[digestSize:]
		}
		add(kindIndex, c.Index, -1, "")
	}
	for _, d := range c.Documents {
		add(kindDocument, d.Stored, -1, d.Name)
	}
	add(kindCatalog, len(data)-footerSize-at, -1, "")
	add(kindFooter, footerSize, -1, "")
	return out
}

func partAt(data []byte, i int) part {
	for _, p := range partsOf(data) {
		if p.start <= i && i < p.end {
			return p
		}
	}
	panic("no part has this byte")
}

func idOf(data []byte) fileID { return fileID(data[len(magic)+4:]) }

var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		panic(err)
	}
	return e
})

func blocksIn(t testing.TB, data []byte) (out [][]byte) {
	t.Helper()
	f := readSpec(data)
	for _, c := range f.collections {
		out = append(out, c.blocks...)
	}
	return out
}
