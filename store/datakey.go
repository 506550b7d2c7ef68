package store

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/larder-dev/larder/store/internal/format"
)

// dataKey seals what one file holds. The key itself, of 32 random bytes, is not kept: these are made of it by HKDF-Expand with SHA-256.
type dataKey struct {
	id uint64
	// wrapper is the id of the provider's key, and wrapped what that has made of this one.
	wrapper string
	wrapped []byte
	created time.Time // to a second
	// check tells whether an unwrapped key is the one that was wrapped.
	check []byte
	// records seals payloads, under random nonces: of 24 bytes there are enough for as long as anybody writes.
	records cipher.AEAD
	// values seals index values and mac hashes them; see token.
	values cipher.AEAD
	mac    []byte
}

// What is derived of a data key, and for what; part of the file's format.
const (
	deriveRecords = "larder 1 records"
	deriveValues  = "larder 1 index values"
	deriveMAC     = "larder 1 index hashes"
	deriveCheck   = "larder 1 check"
)

var errNotSealed = errors.New("it can not be opened: it is not what was sealed there")

// newDataKey derives what is needed of the raw key, which it overwrites.
func newDataKey(id uint64, raw []byte) (*dataKey, error) {
	defer clear(raw)
	if len(raw) != keySize {
		return nil, fmt.Errorf("a data key of %d bytes; it must have %d: %w", len(raw), keySize, ErrWrongKey)
	}
	k := &dataKey{id: id}
	var parts [4][]byte
	for i, info := range []string{deriveRecords, deriveValues, deriveMAC, deriveCheck} {
		part, err := hkdf.Expand(sha256.New, raw, info, keySize)
		if err != nil {
			return nil, err
		}
		parts[i] = part
	}
	var err [2]error
	k.records, err[0] = chacha20poly1305.NewX(parts[0])
	k.values, err[1] = chacha20poly1305.NewX(parts[1])
	k.mac, k.check = parts[2], parts[3][:16]
	clear(parts[0])
	clear(parts[1])
	return k, errors.Join(err[:]...)
}

// wipe overwrites what Go lets it: what is in the ciphers stays until the memory is used again.
func (k *dataKey) wipe() { clear(k.mac) }

// sealWith encrypts plain under a random nonce, which the result begins with, and appends it to dst.
func sealWith(aead cipher.AEAD, dst, context, plain []byte) []byte {
	nonce := make([]byte, chacha20poly1305.NonceSizeX, format.SealOverhead+len(plain))
	_, _ = rand.Read(nonce) // never fails
	return append(dst, aead.Seal(nonce, nonce, plain, context)...)
}

// openWith is the reverse of sealWith. The result is appended to dst.
func openWith(aead cipher.AEAD, dst, context, sealed []byte) ([]byte, error) {
	if len(sealed) < format.SealOverhead {
		return nil, errNotSealed
	}
	nonce, rest := sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:]
	plain, err := aead.Open(dst, nonce, rest, context)
	if err != nil {
		return nil, errNotSealed
	}
	return plain, nil
}

// A token is what stands for a value of a sealed index, in the headers of records and in index entries:
//
//	bytes 0-7    id of the data key, big endian
//	bytes 8-39   HMAC-SHA256 of the collection's id, the index's name and the value: the keyed hash that look-ups are by
//	the rest     the value, sealed with XChaCha20-Poly1305: the first 24 bytes of the hash are its nonce, and all that comes before it is its associated data
//
// So the same value has the same token in an index, as long as the data key is the same, and entries of a value lie together. The nonce repeats only where all of
// it does (a synthetic IV, as in RFC 5297).
const (
	tokenFixed = 8 + sha256.Size
	tokenLeast = tokenFixed + chacha20poly1305.Overhead
)

// token returns that of a value.
func (k *dataKey) token(collection, index, value string) string {
	t := binary.BigEndian.AppendUint64(make([]byte, 0, tokenLeast+len(value)), k.id)
	t = append(t, k.hash(collection, index, value)...)
	head := t[:tokenFixed:tokenFixed]
	return string(k.values.Seal(t, head[8:8+chacha20poly1305.NonceSizeX], []byte(value), head))
}

// hash is the keyed hash of a value.
func (k *dataKey) hash(collection, index, value string) []byte {
	mac := hmac.New(sha256.New, k.mac)
	_, _ = mac.Write(format.AppendSized(format.AppendSized(nil, collection), index)) // never fails
	_, _ = mac.Write([]byte(value))
	return mac.Sum(nil)
}

// tokenKey is the id of the data key of a token.
func tokenKey(token string) (id uint64, ok bool) {
	if len(token) < tokenLeast {
		return 0, false
	}
	return binary.BigEndian.Uint64([]byte(token[:8])), true
}

// value is the reverse of token.
func (k *dataKey) value(collection, index, token string) (string, error) {
	if len(token) < tokenLeast {
		return "", errNotSealed
	}
	head := []byte(token[:tokenFixed])
	plain, err := k.values.Open(nil, head[8:8+chacha20poly1305.NonceSizeX], []byte(token[tokenFixed:]), head)
	if err != nil || subtle.ConstantTimeCompare(k.hash(collection, index, string(plain)), head[8:]) != 1 { // of another index, or collection
		return "", errNotSealed
	}
	return string(plain), nil
}
