package format

import (
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/msgpack"
)

// A record is the value of an object's key in the objects bucket:
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
//	                payload: the output of the codec named by encoding
//	packedVersion   uid, resourceVersion, seq, encoding, terms, dictionary, size [, created [, since]]
//	                payload: a zstd frame of the codec's output, made with the dictionary; size is its uncompressed size
//	SealedVersion   uid, resourceVersion, seq, encoding, terms, dictionary, size, data key [, created [, since]]
//	                payload: a nonce of 24 bytes, and either of the above payloads, encrypted with XChaCha20-Poly1305;
//	                dictionary and size are 0 if it is not compressed; the terms are tokens (package seal)
//
// created is omitted if it equals seq and no field follows it. Programs ignore elements that they do not know at the
// end of the header.
//
// The checksum covers collection and key because bbolt has no checksums of its own: a record that a damaged page shows
// under another key must not be served.
//
// The version determines only how the payload is read. The checksum and the first elements of the header are the same
// in every version. So a program that does not know a version refuses the object (ErrIncompatible), but still finds its
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

// MaxDecompressed is the maximum size in bytes of a payload that is stored compressed. It limits a read's allocation.
const MaxDecompressed = 64 << 20

// Header holds the fields of a record besides its payload.
type Header struct {
	UID string
	RV  string
	// Seq is the sequence number of this record: each record written to the collection gets the next number.
	Seq uint64
	// Created is the Seq of the object's first record, or 0 if it equals Seq. See FirstSeq.
	Created uint64
	// Since is the resourceVersion since which the key has had an object without interruption; "" if unknown. Only
	// collections whose changes are served have it.
	Since string
	// Encoding is the Codec.Name of the codec that wrote the payload.
	Encoding string
	// Terms are the values under which each index has the object, by the name of the index. With them an update can remove
	// the old entries without decoding the old object. In a sealed record they are tokens.
	Terms map[string][]string
	// Dictionary is the id of the dictionary that compressed the payload, and Size the uncompressed size; 0 for none.
	Dictionary uint64
	Size       int
	// SealedBy is the id of the data key that sealed the payload; 0 without a seal. Head is the header in its stored form,
	// which is part of the associated data; it shares memory with the parsed record.
	SealedBy uint64
	Head     []byte
	// Unknown is the version of a record whose payload this program cannot read, and otherwise 0.
	Unknown byte
}

// FirstSeq returns the sequence number of the record with which the object was first stored.
func (h Header) FirstSeq() uint64 {
	if h.Created == 0 {
		return h.Seq
	}
	return h.Created
}

// PlainSize returns the size of the payload that the codec wrote.
func (h Header) PlainSize(payload []byte) int {
	switch {
	case h.Dictionary != 0:
		return h.Size
	case h.SealedBy != 0:
		return max(0, len(payload)-SealOverhead)
	}
	return len(payload)
}

// Version returns the version byte, the first byte of a record with this header.
func (h Header) Version() byte {
	switch {
	case h.SealedBy != 0:
		return SealedVersion
	case h.Dictionary != 0:
		return packedVersion
	}
	return RecordVersion
}

// AppendRecord appends the record of the object with this key to dst.
func AppendRecord(dst []byte, collection, key string, h Header, payload []byte) []byte {
	return AppendParts(dst, collection, key, h.Version(), AppendHeader(nil, h), payload)
}

// AppendParts is AppendRecord with an encoded header.
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

// ParseRecord splits a record into header and payload, and verifies its checksum. The payload is part of data. The
// header shares no memory with data, except Head.
func ParseRecord(collection, key string, data []byte) (Header, []byte, error) {
	h, payload, err := splitRecord(collection, key, data)
	if err != nil {
		return Header{}, nil, &DamagedRecord{collection, key, err}
	}
	return h, payload, nil
}

// ParseOther is ParseRecord for a record that has no object. Its errors wrap entry.ErrDamaged, but no DamagedRecord.
func ParseOther(collection, key string, data []byte) (Header, []byte, error) {
	h, payload, err := splitRecord(collection, key, data)
	if err != nil {
		return Header{}, nil, fmt.Errorf("record %s in collection %s: %w: %w", base.PrintableKey(key), collection, err,
			entry.ErrDamaged)
	}
	return h, payload, nil
}

// DamagedRecord is the error for the record of an object that is not as it was written. It wraps entry.ErrDamaged.
// Other records of its page may be intact, so the file stays in use, and a list replaces the record.
type DamagedRecord struct {
	Collection, Key string
	Err             error
}

func (e *DamagedRecord) Error() string {
	if errors.Is(e.Err, entry.ErrDamaged) {
		return fmt.Sprintf("record %s in collection %s: %v", base.PrintableKey(e.Key), e.Collection, e.Err)
	}
	return fmt.Sprintf("record %s in collection %s: %v: %v", base.PrintableKey(e.Key), e.Collection, e.Err,
		entry.ErrDamaged)
}

func (e *DamagedRecord) Unwrap() []error { return []error{e.Err, entry.ErrDamaged} }

// IsDamagedRecord reports whether err wraps a DamagedRecord.
func IsDamagedRecord(err error) bool {
	one := (*DamagedRecord)(nil)
	return errors.As(err, &one)
}

// ParseHeader returns the header of a record. It verifies the checksum of the whole record.
func ParseHeader(collection, key string, data []byte) (Header, error) {
	h, _, err := ParseRecord(collection, key, data)
	return h, err
}

// ParsePayload is ParseRecord, but decodes only the header fields that describe the payload.
func ParsePayload(collection, key string, data []byte) (h Header, payload []byte, err error) {
	head, payload, err := cutRecord(collection, key, data)
	if err == nil {
		h, err = decodePayloadHeader(data[0], head)
	}
	if err != nil {
		return Header{}, nil, &DamagedRecord{collection, key, err}
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

// Sum returns the checksum of a record. It ignores the checksum field of record.
func Sum(collection, key string, record []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := sumSized(sumSized(0, table, collection), table, key)
	sum = sumByte(sum, table, record[0])
	return crc32.Update(sum, table, record[RecordFixed:])
}

// sumSized adds the length and the bytes of s to the checksum. It works byte by byte, because crc32.Update would make
// its argument escape, and every read calls this function.
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

// AppendSized appends the length of s, and s, so that the boundary of two consecutive strings is unambiguous.
func AppendSized(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendHeader appends the stored form of the header.
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

// decodeRest decodes the fields after the terms, which only packedVersion and SealedVersion have. It returns the
// minimum number of header fields of the version.
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

// encodingName returns b as a string, without an allocation for the known encodings.
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

// SealOverhead is the number of bytes that sealing adds to a payload: a nonce and a tag.
const SealOverhead = chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead

// ErrNotSealed means that the data was not sealed with this key, or not for this record.
var ErrNotSealed = errors.New("it cannot be opened: it is not what was sealed there")

// Seal encrypts plain under a random nonce. It returns the nonce followed by the ciphertext.
func Seal(aead cipher.AEAD, context, plain []byte) []byte {
	nonce := make([]byte, chacha20poly1305.NonceSizeX, SealOverhead+len(plain))
	_, _ = rand.Read(nonce) // never fails
	return aead.Seal(nonce, nonce, plain, context)
}

// Unseal decrypts the result of Seal. It fails with ErrNotSealed for another key or context.
func Unseal(aead cipher.AEAD, context, sealed []byte) ([]byte, error) {
	if len(sealed) < SealOverhead {
		return nil, ErrNotSealed
	}
	plain, err := aead.Open(nil, sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:], context)
	if err != nil {
		return nil, ErrNotSealed
	}
	return plain, nil
}

// SealContext returns the associated data of a sealed payload. It identifies the record, so that a sealed payload
// cannot be moved to another record:
//
//	SealedVersion
//	length and bytes of: the bucket ("objects", "tombstones" or "dict"), the collection's id,
//	                     the key that the checksum covers, the header
//
// The values of the record's index terms are not sealed with the payload: they are stored as tokens.
func SealContext(bucket []byte, collection, key string, head []byte) []byte {
	dst := make([]byte, 0, 1+8+len(bucket)+len(collection)+len(key)+len(head))
	dst = append(dst, SealedVersion)
	for _, part := range []string{string(bucket), collection, key, string(head)} {
		dst = AppendSized(dst, part)
	}
	return dst
}

// DictionaryID returns the id of a dictionary that is not sealed: a hash of its content, and never 0.
func DictionaryID(content []byte) uint64 {
	sum := sha256.Sum256(content)
	return max(1, binary.BigEndian.Uint64(sum[:])) // The id 0 means no dictionary.
}

// DictionaryKey returns the key of a dictionary in its bucket.
func DictionaryKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// ParseDictionaryKey is the reverse of DictionaryKey.
func ParseDictionaryKey(k []byte) (id uint64, ok bool) {
	if len(k) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(k), true
}

// DictionaryRecordKey returns the key that the checksum of a dictionary covers.
func DictionaryRecordKey(id uint64) string { return fmt.Sprintf("%s/%016x", BucketDictionaries, id) }

// DictionaryHeader has the compressor zstd in place of a codec's encoding.
var DictionaryHeader = Header{Encoding: "dictionary"}
