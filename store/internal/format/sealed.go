package format

import (
	"crypto/cipher"
	"crypto/rand"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

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
