package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/larder-dev/larder/entry"
)

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
