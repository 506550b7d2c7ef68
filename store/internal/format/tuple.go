package format

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

// An index bucket has one bbolt key for each pair of a value and an object's key:
//
//	literal   0x01, the value with each 0x00 written as 0x00 0xff, 0x00 0x01, the object's key
//	hashed    0x02, the SHA-256 of the value, the object's key
//
// The literal form keeps the order of (value, key), and the prefix of one value is never a prefix of another's: 0x00
// 0x01 sorts before 0x00 0xff and before every other byte, and never occurs in an escaped value. A value whose literal
// form is too long for a bbolt key is hashed. Hashed values sort after all others, in no particular order. The value
// itself is then the entry's bbolt value, which is otherwise empty.
const (
	tagLiteral = 0x01
	tagHashed  = 0x02

	escape     = 0x00
	escapedNul = 0xff
	terminator = 0x01

	// maxLiteralLen limits the literal form without the object's key. A constant part of bbolt's key size is reserved for
	// the object's key, so that the choice between literal and hashed depends only on the value.
	maxLiteralLen = bolt.MaxKeySize - entry.MaxKey
)

var errIndexKey = errors.New("an index entry's key is malformed")

// IndexKey returns the bbolt key of the entry for the value and the object's key.
func IndexKey(value, key string) []byte {
	return append(IndexPrefix(value), key...)
}

// IndexEntry returns the bbolt key and bbolt value of the index entry for value and the object's key.
func IndexEntry(value, key string) (k, v []byte) {
	k = IndexKey(value, key)
	if k[0] == tagHashed {
		return k, []byte(value)
	}
	return k, nil
}

// IndexPrefix returns the common prefix of all entries of exactly this value.
func IndexPrefix(value string) []byte {
	if literalLen(value) > maxLiteralLen {
		sum := sha256.Sum256([]byte(value))
		return append([]byte{tagHashed}, sum[:]...)
	}
	return literalPrefix(value)
}

// literalPrefix returns the prefix of all entries of the value in the literal form, for a value of any length.
func literalPrefix(value string) []byte {
	p := make([]byte, 0, len(value)+64)
	p = append(p, tagLiteral)
	for i := 0; i < len(value); i++ {
		p = append(p, value[i])
		if value[i] == escape {
			p = append(p, escapedNul)
		}
	}
	return append(p, escape, terminator)
}

func literalLen(value string) int {
	n := len(value) + 3
	for i := 0; i < len(value); i++ {
		if value[i] == escape {
			n++
		}
	}
	return n
}

// parseIndexKey splits an entry's bbolt key. value is "" for a hashed value.
func parseIndexKey(k []byte) (value, key string, hashed bool, err error) {
	if len(k) == 0 {
		return "", "", false, fmt.Errorf("%w: %w", errIndexKey, entry.ErrDamaged)
	}
	switch body := k[1:]; k[0] {
	case tagLiteral:
		value, rest, ok := cutLiteral(body)
		if ok {
			return value, string(rest), false, nil
		}
	case tagHashed:
		if len(body) >= sha256.Size {
			return "", string(body[sha256.Size:]), true, nil
		}
	}
	return "", "", false, fmt.Errorf("%w: %w", errIndexKey, entry.ErrDamaged)
}

// ParseIndexEntry splits an entry into its value and the object's key, and verifies the hash of a hashed value.
func ParseIndexEntry(k, v []byte) (value, key string, err error) {
	value, key, hashed, err := parseIndexKey(k)
	if err != nil || !hashed {
		return value, key, err
	}
	if sum := sha256.Sum256(v); !bytes.Equal(sum[:], k[1:1+sha256.Size]) {
		return "", "", fmt.Errorf("index entry of %s: its value does not match its hash: %w", base.PrintableKey(key),
			entry.ErrDamaged)
	}
	return string(v), key, nil
}

// cutLiteral unescapes the value up to the terminator, and returns the remaining bytes as rest.
func cutLiteral(b []byte) (value string, rest []byte, ok bool) {
	out := make([]byte, 0, len(b))
	for {
		i := bytes.IndexByte(b, escape)
		if i < 0 || i+1 == len(b) {
			return "", nil, false
		}
		out = append(out, b[:i]...)
		switch b[i+1] {
		case terminator:
			return string(out), b[i+2:], true
		case escapedNul:
			out = append(out, escape)
			b = b[i+2:]
		default:
			return "", nil, false
		}
	}
}
