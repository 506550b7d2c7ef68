package format

import (
	"crypto/cipher"
	"crypto/rand"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

// SealOverhead is how many bytes longer a payload is once it is sealed: a nonce and a tag.
const SealOverhead = chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead

// ErrNotSealed: the data was not sealed with this key, or not for this place.
var ErrNotSealed = errors.New("it cannot be opened: it is not what was sealed there")

// Seal encrypts plain under a random nonce. It returns the nonce followed by the ciphertext.
func Seal(aead cipher.AEAD, context, plain []byte) []byte {
	nonce := make([]byte, chacha20poly1305.NonceSizeX, SealOverhead+len(plain))
	_, _ = rand.Read(nonce) // never fails
	return aead.Seal(nonce, nonce, plain, context)
}

// Unseal decrypts the result of Seal. It fails with ErrNotSealed.
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

// What is sealed: a record's payload, with its place as associated data, so that none can be put in the place of
// another:
//
//	SealedVersion
//	length and bytes of: the bucket ("objects", "tombstones" or "dict"), the collection's id,
//	                     the key that the checksum covers, the header
//
// and the values of its index terms, as tokens.

// SealContext is the associated data of a payload.
func SealContext(bucket []byte, collection, key string, head []byte) []byte {
	dst := make([]byte, 0, 1+8+len(bucket)+len(collection)+len(key)+len(head))
	dst = append(dst, SealedVersion)
	for _, part := range []string{string(bucket), collection, key, string(head)} {
		dst = AppendSized(dst, part)
	}
	return dst
}
