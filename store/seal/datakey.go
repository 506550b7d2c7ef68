package seal

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

// DataKey seals what one file holds. The key itself, of 32 random bytes, is not kept: these are made of it by
// HKDF-Expand with SHA-256.
type DataKey struct {
	ID uint64
	// wrapper is the id of the provider's key, and wrapped what that has made of this one.
	Wrapper string
	Wrapped []byte
	Created time.Time // to a second
	// check tells whether an unwrapped key is the one that was wrapped.
	Check []byte
	// records seals payloads, under random nonces: of 24 bytes there are enough for as long as anybody writes.
	Records cipher.AEAD
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

// ErrNotSealed: what is read is not what was sealed under its key, in its place.
var ErrNotSealed = errors.New("it cannot be opened: it is not what was sealed there")

// NewDataKey derives what is needed of the raw key, which it overwrites.
func NewDataKey(id uint64, raw []byte) (*DataKey, error) {
	defer clear(raw)
	if len(raw) != KeySize {
		return nil, fmt.Errorf("a data key of %d bytes; it must have %d: %w", len(raw), KeySize, ErrWrongKey)
	}
	k := &DataKey{ID: id}
	var parts [4][]byte
	for i, info := range []string{deriveRecords, deriveValues, deriveMAC, deriveCheck} {
		part, err := hkdf.Expand(sha256.New, raw, info, KeySize)
		if err != nil {
			return nil, err
		}
		parts[i] = part
	}
	var err [2]error
	k.Records, err[0] = chacha20poly1305.NewX(parts[0])
	k.values, err[1] = chacha20poly1305.NewX(parts[1])
	k.mac, k.Check = parts[2], parts[3][:16]
	clear(parts[0])
	clear(parts[1])
	return k, errors.Join(err[:]...)
}

// Wipe overwrites what Go lets it: what is in the ciphers stays until the memory is used again.
func (k *DataKey) Wipe() { clear(k.mac) }

// sealWith encrypts plain under a random nonce, which the result begins with, and appends it to dst.
func sealWith(aead cipher.AEAD, dst, context, plain []byte) []byte {
	nonce := make([]byte, chacha20poly1305.NonceSizeX, format.SealOverhead+len(plain))
	_, _ = rand.Read(nonce) // never fails
	return append(dst, aead.Seal(nonce, nonce, plain, context)...)
}

// OpenWith is the reverse of sealWith. The result is appended to dst.
func OpenWith(aead cipher.AEAD, dst, context, sealed []byte) ([]byte, error) {
	if len(sealed) < format.SealOverhead {
		return nil, ErrNotSealed
	}
	nonce, rest := sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:]
	plain, err := aead.Open(dst, nonce, rest, context)
	if err != nil {
		return nil, ErrNotSealed
	}
	return plain, nil
}

// A token is what stands for a value of a sealed index, in the headers of records and in index entries:
//
//	bytes 0-7    id of the data key, big endian
//	bytes 8-39   HMAC-SHA256 of the collection's id, the index's name and the value: the keyed hash that look-ups are by
//	the rest     the value, sealed with XChaCha20-Poly1305: the first 24 bytes of the hash are its nonce, and all that comes before it is its associated data
//
// So the same value has the same token in an index, as long as the data key is the same, and entries of a value lie
// together. The nonce repeats only where all of it does (a synthetic IV, as in RFC 5297).
const (
	tokenFixed = 8 + sha256.Size
	tokenLeast = tokenFixed + chacha20poly1305.Overhead
)

// Token returns that of a value.
func (k *DataKey) Token(collection, index, value string) string {
	t := binary.BigEndian.AppendUint64(make([]byte, 0, tokenLeast+len(value)), k.ID)
	t = append(t, k.hash(collection, index, value)...)
	head := t[:tokenFixed:tokenFixed]
	return string(k.values.Seal(t, head[8:8+chacha20poly1305.NonceSizeX], []byte(value), head))
}

// hash is the keyed hash of a value.
func (k *DataKey) hash(collection, index, value string) []byte {
	mac := hmac.New(sha256.New, k.mac)
	_, _ = mac.Write(format.AppendSized(format.AppendSized(nil, collection), index)) // never fails
	_, _ = mac.Write([]byte(value))
	return mac.Sum(nil)
}

// TokenKey is the id of the data key of a token.
func TokenKey(token string) (id uint64, ok bool) {
	if len(token) < tokenLeast {
		return 0, false
	}
	return binary.BigEndian.Uint64([]byte(token[:8])), true
}

// Value is the reverse of token.
func (k *DataKey) Value(collection, index, token string) (string, error) {
	if len(token) < tokenLeast {
		return "", ErrNotSealed
	}
	head := []byte(token[:tokenFixed])
	plain, err := k.values.Open(nil, head[8:8+chacha20poly1305.NonceSizeX], []byte(token[tokenFixed:]), head)
	if err != nil || subtle.ConstantTimeCompare(k.hash(collection, index, string(plain)), head[8:]) != 1 {
		// of another index, or collection
		return "", ErrNotSealed
	}
	return string(plain), nil
}

// AppendSealed appends a record of that bucket which is sealed. The terms are tokens already.
func (k *DataKey) AppendSealed(
	dst []byte, bucket []byte, collection, key string, h format.Header, payload []byte,
) []byte {
	h.SealedBy = k.ID
	head := format.AppendHeader(nil, h)
	sealed := sealWith(k.Records, nil, format.SealContext(bucket, collection, key, head), payload)
	return format.AppendParts(dst, collection, key, h.Version(), head, sealed)
}

// Tokens are what stands for the terms of an object.
func (k *DataKey) Tokens(collection string, terms map[string][]string) map[string][]string {
	if len(terms) == 0 {
		return nil
	}
	all := make(map[string][]string, len(terms))
	for index, values := range terms {
		tokens := make([]string, len(values))
		for i, value := range values {
			tokens[i] = k.Token(collection, index, value)
		}
		all[index] = tokens
	}
	return all
}
