package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
)

// A record is the value that the objects bucket keeps under an object's key:
//
//	byte 0      recordVersion
//	bytes 1-4   CRC-32C, big endian, of: the length and bytes of the collection id,
//	            the length and bytes of the key, byte 0, and bytes 5 to the end
//	uvarint     length of the header
//	header      msgpack array: uid, resourceVersion, seq, encoding, terms
//	payload     what the codec named by encoding wrote, to the end
//
// The checksum covers collection and key because bbolt has none of its own: a
// record that a damaged page files under another key must not be served.
// Elements that a later build adds at the end of the header are ignored.
const (
	recordVersion = 1
	recordFixed   = 5 // version and checksum
	headerFields  = 5
)

// header is what a record says about its object without its payload.
type header struct {
	UID string
	RV  string
	// Seq grows with every record that is written to the collection.
	Seq uint64
	// Encoding is the Name of the codec that wrote the payload.
	Encoding string
	// Terms are the values that each index files the object under, by the
	// index's name: what an update must remove without decoding the old object.
	Terms map[string][]string
}

// appendRecord appends the record of the object under key to dst.
func appendRecord(dst []byte, collection, key string, h header, payload []byte) []byte {
	head := appendHeader(nil, h)
	start := len(dst)
	dst = append(dst, recordVersion, 0, 0, 0, 0)
	dst = binary.AppendUvarint(dst, uint64(len(head)))
	dst = slices.Grow(dst, len(head)+len(payload))
	dst = append(dst, head...)
	dst = append(dst, payload...)
	sum := recordSum(collection, key, dst[start:])
	binary.BigEndian.PutUint32(dst[start+1:], sum)
	return dst
}

// parseRecord takes a record apart and verifies its checksum. The payload is
// part of data; the header shares no memory with it.
func parseRecord(collection, key string, data []byte) (header, []byte, error) {
	h, payload, err := splitRecord(collection, key, data)
	if err != nil {
		return header{}, nil, fmt.Errorf("record %s in collection %s: %w: %w", legible(key), collection, err, ErrDamaged)
	}
	return h, payload, nil
}

// parseHeader is parseRecord for those who do not need the payload. It
// verifies the checksum of the whole record all the same.
func parseHeader(collection, key string, data []byte) (header, error) {
	h, _, err := parseRecord(collection, key, data)
	return h, err
}

// parsePayload is parseRecord for those who need of the header only which codec wrote the payload.
func parsePayload(collection, key string, data []byte) (encoding string, payload []byte, err error) {
	head, payload, err := cutRecord(collection, key, data)
	if err == nil {
		encoding, err = decodeEncoding(head)
	}
	if err != nil {
		return "", nil, fmt.Errorf("record %s in collection %s: %w: %w", legible(key), collection, err, ErrDamaged)
	}
	return encoding, payload, nil
}

func splitRecord(collection, key string, data []byte) (header, []byte, error) {
	head, payload, err := cutRecord(collection, key, data)
	if err != nil {
		return header{}, nil, err
	}
	h, err := decodeHeader(head)
	return h, payload, err
}

// cutRecord verifies the checksum. What it returns is part of data.
func cutRecord(collection, key string, data []byte) (head, payload []byte, err error) {
	if len(data) < recordFixed {
		return nil, nil, fmt.Errorf("%d bytes are too few", len(data))
	}
	if data[0] != recordVersion {
		return nil, nil, fmt.Errorf("unknown record version %d", data[0])
	}
	if binary.BigEndian.Uint32(data[1:]) != recordSum(collection, key, data) {
		return nil, nil, errChecksum
	}
	rest := data[recordFixed:]
	size, n := binary.Uvarint(rest)
	if n <= 0 || size > uint64(len(rest)-n) {
		return nil, nil, errHeaderLength
	}
	rest = rest[n:]
	return rest[:size], rest[size:], nil
}

// recordSum is the checksum of a record, whatever its checksum field holds.
func recordSum(collection, key string, record []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := sumSized(sumSized(0, table, collection), table, key)
	sum = sumByte(sum, table, record[0])
	return crc32.Update(sum, table, record[recordFixed:])
}

// sumSized adds what appendSized would append. It goes byte by byte because
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

// appendSized appends the length of s and s, so that two strings in a row can
// not be cut in another place.
func appendSized(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendHeader(dst []byte, h header) []byte {
	dst = appendArrayLen(dst, headerFields)
	dst = appendText(dst, h.UID)
	dst = appendText(dst, h.RV)
	dst = appendUint(dst, h.Seq)
	dst = appendText(dst, h.Encoding)
	dst = appendMapLen(dst, len(h.Terms))
	for _, index := range slices.Sorted(maps.Keys(h.Terms)) {
		dst = appendText(dst, index)
		dst = appendArrayLen(dst, len(h.Terms[index]))
		for _, value := range h.Terms[index] {
			dst = appendText(dst, value)
		}
	}
	return dst
}

// decodeEncoding reads the Encoding of a header and passes over all that is before it.
func decodeEncoding(head []byte) (string, error) {
	d := newMsgpackReader(head)
	if n := d.arrayLen(); d.err == nil && n < headerFields {
		return "", fmt.Errorf("%d header fields are too few", n)
	}
	d.skip(3)
	b := d.bytes()
	if d.err != nil {
		return "", fmt.Errorf("header: %w", d.err)
	}
	return encodingName(b), nil
}

// encodingName returns b as a string, without an allocation for the encodings there are.
func encodingName(b []byte) string {
	switch string(b) {
	case encodingProtobuf:
		return encodingProtobuf
	case encodingMsgpack:
		return encodingMsgpack
	}
	return string(b)
}

func decodeHeader(data []byte) (header, error) {
	d := newMsgpackReader(data)
	var h header
	if n := d.arrayLen(); d.err == nil && n < headerFields {
		return header{}, fmt.Errorf("%d header fields are too few", n)
	}
	h.UID = d.str()
	h.RV = d.str()
	h.Seq = d.uint()
	h.Encoding = encodingName(d.bytes())
	n := d.mapLen()
	if n > 0 && d.err == nil {
		h.Terms = make(map[string][]string, min(n, 64))
	}
	for i := 0; i < n && d.err == nil; i++ {
		index := d.str()
		count := d.arrayLen()
		values := make([]string, 0, count)
		for j := 0; j < count && d.err == nil; j++ {
			values = append(values, d.str())
		}
		h.Terms[index] = values
	}
	if d.err != nil {
		return header{}, fmt.Errorf("header: %w", d.err)
	}
	return h, nil
}
