package crypt

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// dataKey seals the contents of one file. It does not keep the raw key of 32 random bytes, but the keys derived from it
// by HKDF-Expand with SHA-256.
type dataKey struct {
	id uint64
	// wrapper is the id of the provider's key, and wrapped is this data key as wrapped by the provider.
	wrapper string
	wrapped []byte
	created time.Time // created is in whole seconds.
	// check is a hash of the raw key, to verify an unwrapped key.
	check []byte
	// records seals payloads with random nonces. Nonces of 24 bytes do not repeat, however many records are written.
	records cipher.AEAD
	// values seals index values, and mac is the key of their hashes; see token.
	values cipher.AEAD
	mac    []byte
}

// Labels from which keys are derived. They are part of the file's format.
const (
	deriveRecords = "larder 1 records"
	deriveValues  = "larder 1 index values"
	deriveMAC     = "larder 1 index hashes"
	deriveCheck   = "larder 1 check"
)

// newDataKey returns the dataKey of a raw key of 32 bytes. It overwrites raw.
func newDataKey(id uint64, raw []byte) (*dataKey, error) {
	defer clear(raw)
	if len(raw) != seal.KeySize {
		return nil, fmt.Errorf("a data key of %d bytes; it must have %d: %w", len(raw), seal.KeySize, seal.ErrWrongKey)
	}
	k := &dataKey{id: id}
	var parts [4][]byte
	for i, info := range []string{deriveRecords, deriveValues, deriveMAC, deriveCheck} {
		part, err := hkdf.Expand(sha256.New, raw, info, seal.KeySize)
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

// wipe overwrites mac in memory. The keys inside the ciphers cannot be overwritten.
func (k *dataKey) wipe() { clear(k.mac) }

// A token replaces a value of a sealed index, in the headers of records and in index entries:
//
//	bytes 0-7    id of the data key, big endian
//	bytes 8-39   HMAC-SHA256 of the collection's id, the index's name and the value: the keyed hash for look-ups
//	the rest     the value, sealed with XChaCha20-Poly1305: its nonce is the first 24 bytes of the hash, its associated
//	             data are bytes 0 to 39
//
// So equal values of an index have equal tokens under one data key, and their entries are adjacent. A nonce repeats
// only if the whole token does (a synthetic IV, as in RFC 5297).
const (
	tokenFixed = 8 + sha256.Size
	tokenLeast = tokenFixed + chacha20poly1305.Overhead
)

// token returns the stored form of a value of a sealed index.
func (k *dataKey) token(collection, index, value string) string {
	t := binary.BigEndian.AppendUint64(make([]byte, 0, tokenLeast+len(value)), k.id)
	t = append(t, k.hash(collection, index, value)...)
	head := t[:tokenFixed:tokenFixed]
	return string(k.values.Seal(t, head[8:8+chacha20poly1305.NonceSizeX], []byte(value), head))
}

func (k *dataKey) hash(collection, index, value string) []byte {
	mac := hmac.New(sha256.New, k.mac)
	_, _ = mac.Write(format.AppendSized(format.AppendSized(nil, collection), index)) // The hash never returns an error.
	_, _ = mac.Write([]byte(value))
	return mac.Sum(nil)
}

// tokenKey returns the id of a token's data key. ok is false for malformed tokens.
func tokenKey(token string) (id uint64, ok bool) {
	if len(token) < tokenLeast {
		return 0, false
	}
	return binary.BigEndian.Uint64([]byte(token[:8])), true
}

// value decrypts a token. It fails with format.ErrNotSealed for a damaged token, or one of another index or collection.
func (k *dataKey) value(collection, index, token string) (string, error) {
	if len(token) < tokenLeast {
		return "", format.ErrNotSealed
	}
	head := []byte(token[:tokenFixed])
	plain, err := k.values.Open(nil, head[8:8+chacha20poly1305.NonceSizeX], []byte(token[tokenFixed:]), head)
	if err != nil || subtle.ConstantTimeCompare(k.hash(collection, index, string(plain)), head[8:]) != 1 {
		// The token is of another index or collection.
		return "", format.ErrNotSealed
	}
	return string(plain), nil
}

// tokens returns a copy of terms, the values of an object by index name, with tokens in place of the values.
func (k *dataKey) tokens(collection string, terms map[string][]string) map[string][]string {
	if len(terms) == 0 {
		return nil
	}
	all := make(map[string][]string, len(terms))
	for index, values := range terms {
		tokens := make([]string, len(values))
		for i, value := range values {
			tokens[i] = k.token(collection, index, value)
		}
		all[index] = tokens
	}
	return all
}
