package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/msgpack"
	"github.com/larder-dev/larder/internal/printable"
)

// A record is the value that the objects bucket keeps under an object's key:
//
//	byte 0      the version: RecordVersion, packedVersion or SealedVersion
//	bytes 1-4   CRC-32C, big endian, of: the length and bytes of the collection id,
//	            the length and bytes of the key, byte 0, and bytes 5 to the end
//	uvarint     length of the header
//	header      msgpack array; see below
//	payload     to the end
//
// The header, by position, and the payload of each version:
//
//	RecordVersion   uid, resourceVersion, seq, encoding, terms [, created [, since]]
//	                payload: what the codec named by encoding wrote
//	packedVersion   uid, resourceVersion, seq, encoding, terms, dictionary, size [, created [, since]]
//	                payload: a zstd frame of that, made with the dictionary; size is that of what it holds
//	SealedVersion   uid, resourceVersion, seq, encoding, terms, dictionary, size, data key [, created [, since]]
//	                payload: a nonce of 24 bytes, and either of the two encrypted with XChaCha20-Poly1305;
//	                dictionary and size are 0 if it is not compressed; the terms are tokens (package seal)
//
// created is left out if it is seq. A record that has a field after it needs created, too; elements behind it are
// ignored by builds that do not know them.
//
// The checksum covers collection and key because bbolt has none of its own: a
// record that a damaged page files under another key must not be served.
//
// The version says how the payload is to be read, and nothing else: checksum, and the header's first elements, are the
// same in every one. So a build that does not know a version refuses the object (ErrIncompatible), and still finds its
// index entries and can replace it.
const (
	RecordVersion = 1
	packedVersion = 2
	SealedVersion = 3
	RecordFixed   = 5 // version and checksum
	headerFields  = 5
	packedFields  = headerFields + 2
	sealedFields  = packedFields + 1
)

var (
	errChecksum     = errors.New("the checksum does not match")
	errHeaderLength = errors.New("the header is longer than the record")
)

// MaxDecompressed is how long a payload may be that is stored compressed, in bytes. It bounds what a read allocates.
const MaxDecompressed = 64 << 20

// Header is what a record says about its object without its payload.
type Header struct {
	UID string
	RV  string
	// Seq grows with every record that is written to the collection.
	Seq uint64
	// Created is the Seq of the object's first record; 0 is Seq itself: see FirstSeq.
	Created uint64
	// Since is the resourceVersion since which there is an object under the key, without a break; "" if that is not known.
	// Only collections whose changes are served keep it.
	Since string
	// Encoding is the Name of the codec that wrote the payload.
	Encoding string
	// Terms are the values that each index files the object under, by the index's name: what an update must remove without
	// decoding the old object. Of a record that is sealed they are tokens.
	Terms map[string][]string
	// Dictionary is the id of the one that the payload is compressed with, and Size how long it is without that. Both are
	// 0 if it is not compressed.
	Dictionary uint64
	Size       int
	// SealedBy is the id of the data key that the payload is sealed with; 0 if it is not. Head is the header as it is
	// stored, which was sealed with it: part of the record that was taken apart.
	SealedBy uint64
	Head     []byte
	// Unknown is the version of a record that this build cannot read the payload of, or 0.
	Unknown byte
}

// FirstSeq returns the number at which the object was created, as far as this collection has seen it.
func (h Header) FirstSeq() uint64 {
	if h.Created == 0 {
		return h.Seq
	}
	return h.Created
}

// PlainSize is how long the payload is that the codec wrote.
func (h Header) PlainSize(payload []byte) int {
	switch {
	case h.Dictionary != 0:
		return h.Size
	case h.SealedBy != 0:
		return max(0, len(payload)-SealOverhead)
	}
	return len(payload)
}

// Version is the first byte of a record with that header.
func (h Header) Version() byte {
	switch {
	case h.SealedBy != 0:
		return SealedVersion
	case h.Dictionary != 0:
		return packedVersion
	}
	return RecordVersion
}

// AppendRecord appends the record of the object under key to dst.
func AppendRecord(dst []byte, collection, key string, h Header, payload []byte) []byte {
	return AppendParts(dst, collection, key, h.Version(), AppendHeader(nil, h), payload)
}

// AppendParts is AppendRecord with a header that has been encoded.
func AppendParts(dst []byte, collection, key string, version byte, head, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, version, 0, 0, 0, 0)
	dst = binary.AppendUvarint(dst, uint64(len(head)))
	dst = slices.Grow(dst, len(head)+len(payload))
	dst = append(dst, head...)
	dst = append(dst, payload...)
	sum := Sum(collection, key, dst[start:])
	binary.BigEndian.PutUint32(dst[start+1:], sum)
	return dst
}

// IsSealed reports whether data is a sealed record, whose terms are tokens.
func IsSealed(data []byte) bool { return len(data) > 0 && data[0] == SealedVersion }

// ParseRecord takes a record apart and verifies its checksum. The payload is
// part of data; the header shares no memory with it, but for head.
func ParseRecord(collection, key string, data []byte) (Header, []byte, error) {
	h, payload, err := splitRecord(collection, key, data)
	if err != nil {
		return Header{}, nil, fmt.Errorf("record %s in collection %s: %w: %w", printable.Key(key), collection, err,
			entry.ErrDamaged)
	}
	return h, payload, nil
}

// ParseHeader is ParseRecord without the payload. It verifies the checksum of the whole record all the same.
func ParseHeader(collection, key string, data []byte) (Header, error) {
	h, _, err := ParseRecord(collection, key, data)
	return h, err
}

// ParsePayload is ParseRecord that decodes of the header only what describes the payload.
func ParsePayload(collection, key string, data []byte) (h Header, payload []byte, err error) {
	head, payload, err := cutRecord(collection, key, data)
	if err == nil {
		h, err = decodePayloadHeader(data[0], head)
	}
	if err != nil {
		return Header{}, nil, fmt.Errorf("record %s in collection %s: %w: %w", printable.Key(key), collection, err,
			entry.ErrDamaged)
	}
	return h, payload, nil
}

func splitRecord(collection, key string, data []byte) (Header, []byte, error) {
	head, payload, err := cutRecord(collection, key, data)
	if err != nil {
		return Header{}, nil, err
	}
	h, err := decodeHeader(data[0], head)
	return h, payload, err
}

// cutRecord verifies the checksum. What it returns is part of data.
func cutRecord(collection, key string, data []byte) (head, payload []byte, err error) {
	if len(data) < RecordFixed {
		return nil, nil, fmt.Errorf("%d bytes are too few", len(data))
	}
	if data[0] < RecordVersion {
		return nil, nil, fmt.Errorf("record version %d", data[0])
	}
	if binary.BigEndian.Uint32(data[1:]) != Sum(collection, key, data) {
		return nil, nil, errChecksum
	}
	rest := data[RecordFixed:]
	size, n := binary.Uvarint(rest)
	if n <= 0 || size > uint64(len(rest)-n) {
		return nil, nil, errHeaderLength
	}
	rest = rest[n:]
	return rest[:size], rest[size:], nil
}

// Sum is the checksum of a record, whatever its checksum field holds.
func Sum(collection, key string, record []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := sumSized(sumSized(0, table, collection), table, key)
	sum = sumByte(sum, table, record[0])
	return crc32.Update(sum, table, record[RecordFixed:])
}

// sumSized adds the length and the bytes of s to the checksum. It goes byte by byte because
// crc32.Update makes its argument escape, and every read does this.
func sumSized(sum uint32, table *crc32.Table, s string) uint32 {
	n := len(s)
	for ; n >= 0x80; n >>= 7 {
		sum = sumByte(sum, table, byte(n)|0x80)
	}
	sum = sumByte(sum, table, byte(n))
	for i := 0; i < len(s); i++ {
		sum = sumByte(sum, table, s[i])
	}
	return sum
}

func sumByte(sum uint32, table *crc32.Table, b byte) uint32 {
	sum = ^sum
	return ^(table[byte(sum)^b] ^ sum>>8)
}

// AppendSized appends the length of s and s, so that two strings in a row can
// not be cut in another place.
func AppendSized(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendHeader appends the header as a record has it.
func AppendHeader(dst []byte, h Header) []byte {
	version, fields := h.Version(), headerFields
	switch version {
	case packedVersion:
		fields = packedFields
	case SealedVersion:
		fields = sealedFields
	}
	created, since := h.FirstSeq() != h.Seq || h.Since != "", h.Since != ""
	switch {
	case since:
		fields += 2
	case created:
		fields++
	}
	dst = msgpack.AppendArrayLen(dst, fields)
	dst = msgpack.AppendText(dst, h.UID)
	dst = msgpack.AppendText(dst, h.RV)
	dst = msgpack.AppendUint(dst, h.Seq)
	dst = msgpack.AppendText(dst, h.Encoding)
	dst = msgpack.AppendMapLen(dst, len(h.Terms))
	for _, index := range slices.Sorted(maps.Keys(h.Terms)) {
		dst = msgpack.AppendText(dst, index)
		dst = msgpack.AppendArrayLen(dst, len(h.Terms[index]))
		for _, value := range h.Terms[index] {
			dst = msgpack.AppendText(dst, value)
		}
	}
	if version != RecordVersion {
		dst = msgpack.AppendUint(dst, h.Dictionary)
		dst = msgpack.AppendUint(dst, uint64(h.Size))
	}
	if version == SealedVersion {
		dst = msgpack.AppendUint(dst, h.SealedBy)
	}
	if created {
		dst = msgpack.AppendUint(dst, h.FirstSeq())
	}
	if since {
		dst = msgpack.AppendText(dst, h.Since)
	}
	return dst
}

// decodePayloadHeader reads of a header what is about the payload, and passes over all else.
func decodePayloadHeader(version byte, head []byte) (Header, error) {
	d := msgpack.NewReader(head)
	fields := d.ArrayLen()
	if d.Err == nil && fields < headerFields {
		return Header{}, fmt.Errorf("%d header fields are too few", fields)
	}
	d.Skip(3)
	h := Header{Encoding: encodingName(d.Bytes())}
	if version != RecordVersion {
		d.Skip(1)
		h.decodeRest(version, fields, head, &d)
	}
	if d.Err != nil {
		return Header{}, fmt.Errorf("header: %w", d.Err)
	}
	return h, nil
}

// decodeRest reads what headers have after the terms in other versions than the first. It returns how many fields every
// header of that version has.
func (h *Header) decodeRest(version byte, fields int, head []byte, d *msgpack.Reader) (least int) {
	least = packedFields
	switch version {
	case packedVersion:
	case SealedVersion:
		least = sealedFields
	default:
		h.Unknown = version
		return fields
	}
	if d.Err == nil && fields < least {
		d.Err = fmt.Errorf("%d header fields are too few", fields)
		return fields
	}
	h.Dictionary = d.Uint()
	size := d.Uint()
	plain := version == SealedVersion && h.Dictionary == 0 && size == 0
	if d.Err == nil && !plain && (h.Dictionary == 0 || size == 0 || size > MaxDecompressed) {
		d.Err = fmt.Errorf("a payload of %d bytes that is compressed with dictionary %x cannot be", size, h.Dictionary)
	}
	h.Size = int(size)
	if version == SealedVersion {
		h.SealedBy, h.Head = d.Uint(), head
		if d.Err == nil && h.SealedBy == 0 {
			d.Err = errors.New("a payload that is sealed with no key cannot be")
		}
	}
	return least
}

// encodingName returns b as a string, without an allocation for the encodings there are.
func encodingName(b []byte) string {
	switch string(b) {
	case codec.EncodingProtobuf:
		return codec.EncodingProtobuf
	case codec.EncodingMsgpack:
		return codec.EncodingMsgpack
	}
	return string(b)
}

func decodeHeader(version byte, data []byte) (Header, error) {
	d := msgpack.NewReader(data)
	var h Header
	fields := d.ArrayLen()
	if d.Err == nil && fields < headerFields {
		return Header{}, fmt.Errorf("%d header fields are too few", fields)
	}
	h.UID = d.Str()
	h.RV = d.Str()
	h.Seq = d.Uint()
	h.Encoding = encodingName(d.Bytes())
	n := d.MapLen()
	if n > 0 && d.Err == nil {
		h.Terms = make(map[string][]string, min(n, 64))
	}
	for i := 0; i < n && d.Err == nil; i++ {
		index := d.Str()
		count := d.ArrayLen()
		values := make([]string, 0, count)
		for j := 0; j < count && d.Err == nil; j++ {
			values = append(values, d.Str())
		}
		h.Terms[index] = values
	}
	least := headerFields
	if version != RecordVersion {
		least = h.decodeRest(version, fields, data, &d)
	}
	if d.Err == nil && h.Unknown == 0 && fields > least {
		h.Created = d.Uint()
	}
	if d.Err == nil && h.Unknown == 0 && fields > least+1 {
		h.Since = d.Str()
	}
	if d.Err != nil {
		return Header{}, fmt.Errorf("header: %w", d.Err)
	}
	return h, nil
}
