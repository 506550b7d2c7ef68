package format

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
)

// An index bucket files an object's key under a value in one bbolt key:
//
//	literal   0x01, the value with each 0x00 written as 0x00 0xff, 0x00 0x01, the object's key
//	hashed    0x02, the SHA-256 of the value, the object's key
//
// The literal form keeps the order of (value, key), and no value's prefix
// begins another's: 0x00 0x01 sorts before 0x00 0xff and before every other
// byte, and never occurs in an escaped value. Values whose literal form bbolt
// has no room for are hashed; they sort after all others, in no order, and
// the value itself is in the entry's bbolt value, which is otherwise empty.
const (
	tagLiteral = 0x01
	tagHashed  = 0x02

	escape     = 0x00
	escapedNul = 0xff
	terminator = 0x01

	// maxLiteralLen bounds the literal form without the object's key. A
	// constant share of bbolt's key is kept for that, so that whether a value
	// is hashed does not depend on the object's key.
	maxLiteralLen = bolt.MaxKeySize - entry.MaxKey
)

var errIndexKey = errors.New("an index entry's key is malformed")

// IndexKey returns the bbolt key that files the object's key under value.
func IndexKey(value, key string) []byte {
	return append(IndexPrefix(value), key...)
}

// IndexEntry returns the whole bbolt entry that files the object's key under value.
func IndexEntry(value, key string) (k, v []byte) {
	k = IndexKey(value, key)
	if k[0] == tagHashed {
		return k, []byte(value)
	}
	return k, nil
}

// IndexPrefix returns what all entries of exactly this value, and no others, begin with.
func IndexPrefix(value string) []byte {
	if literalLen(value) > maxLiteralLen {
		sum := sha256.Sum256([]byte(value))
		return append([]byte{tagHashed}, sum[:]...)
	}
	return literalPrefix(value)
}

// literalPrefix is indexPrefix as if there were room for any value.
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

// parseIndexKey takes an entry's bbolt key apart. If the value is hashed it
// returns "" for it; see parseIndexEntry.
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

// ParseIndexEntry takes a whole entry apart, hashed or not, and verifies the hash.
func ParseIndexEntry(k, v []byte) (value, key string, err error) {
	value, key, hashed, err := parseIndexKey(k)
	if err != nil || !hashed {
		return value, key, err
	}
	if sum := sha256.Sum256(v); !bytes.Equal(sum[:], k[1:1+sha256.Size]) {
		return "", "", fmt.Errorf("index entry of %s: its value does not match its hash: %w", printable.Key(key),
			entry.ErrDamaged)
	}
	return string(v), key, nil
}

// cutLiteral unescapes up to the terminator and returns what follows it.
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
