package snapshot

import (
	"encoding/binary"
	"fmt"

	"github.com/larder-dev/larder/entry"
)

// appendRecord appends r as it is in a block: key, uid, resourceVersion, encoding, payload, each with its length before
// it.
func appendRecord(dst []byte, r entry.Entry) []byte {
	dst = appendSized(dst, r.Key)
	dst = appendSized(dst, r.UID)
	dst = appendSized(dst, r.ResourceVersion)
	dst = appendSized(dst, r.Encoding)
	dst = binary.AppendUvarint(dst, uint64(len(r.Payload)))
	return append(dst, r.Payload...)
}

// recordSize is at least what appendRecord appends.
func recordSize(r entry.Entry) int {
	return len(r.Key) + len(r.UID) + len(r.ResourceVersion) + len(r.Encoding) + len(r.Payload) + 5*binary.MaxVarintLen32
}

// cutRecord is the inverse of appendRecord. The payload is part of data.
func cutRecord(data []byte) (r entry.Entry, rest []byte, ok bool) {
	var key, uid, rv, encoding []byte
	for _, field := range []*[]byte{&key, &uid, &rv, &encoding, &r.Payload} {
		if *field, data, ok = cutSized(data); !ok {
			return entry.Entry{}, nil, false
		}
	}
	r.Key, r.UID, r.ResourceVersion, r.Encoding = string(key), string(uid), string(rv), encodingName(encoding)
	return r, data, true
}

// encodingName returns the text of b, without allocating for the encodings that there are.
func encodingName(b []byte) string {
	for _, name := range []string{encodingMsgpack, encodingProtobuf} {
		if string(b) == name {
			return name
		}
	}
	return string(b)
}

// checkRecord says whether r can be written.
func checkRecord(r entry.Entry) error {
	switch {
	case r.Key == "":
		return fmt.Errorf("a record without a key: %w", ErrOrder)
	case len(r.Key) > maxKey:
		return fmt.Errorf("record %.100q…: a key of %d bytes, %d are allowed: %w", r.Key, len(r.Key), maxKey, ErrTooLarge)
	case longestMark(r) > maxMark:
		return fmt.Errorf("record %.100q: its UID, resourceVersion or encoding has %d bytes, %d are allowed: %w", r.Key,
			longestMark(r), maxMark, ErrTooLarge)
	case recordSize(r) > maxBody:
		return fmt.Errorf("record %q: %d bytes, %d are allowed: %w", r.Key, recordSize(r), maxBody, ErrTooLarge)
	}
	return nil
}

// longestMark is the size of the longest of what r has beside key and payload.
func longestMark(r entry.Entry) int {
	return max(len(r.UID), len(r.ResourceVersion), len(r.Encoding))
}

func appendSized[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// cutSized is the inverse of appendSized. What it returns is part of data.
func cutSized(data []byte) (s, rest []byte, ok bool) {
	size, n := binary.Uvarint(data)
	if n <= 0 || size > uint64(len(data)-n) {
		return nil, nil, false
	}
	end := n + int(size)
	return data[n:end:end], data[end:], true
}

// cutNumber takes a uvarint off data.
func cutNumber(data []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, nil, false
	}
	return v, data[n:], true
}
