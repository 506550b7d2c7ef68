package keyring

import (
	"errors"
	"fmt"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/format"
)

// Sealer seals and opens the records of one collection. It opens records sealed with any key of the ring, and returns
// unsealed ones unchanged. It is safe for concurrent use.
type Sealer struct {
	ring *Ring
	// collection is the name of the collection's bucket. Sealed data can be opened only for this collection.
	collection string
	sealing    atomic.Bool // whether new records are sealed
}

// Sealer returns the Sealer of a collection. It does not seal new records until Begin is called.
func (r *Ring) Sealer(collection string) *Sealer { return &Sealer{ring: r, collection: collection} }

// Begin makes the Sealer seal new records if the stored records are sealed, if the caller requires it (must), or if the
// store's options ask for it (wanted). If the ring is locked (has no keys), Begin fails if the stored records are
// sealed or must is true.
func (s *Sealer) Begin(stored, must, wanted bool) error {
	switch {
	case stored && s.Locked():
		return s.ring.ErrSealed()
	case must && s.Locked():
		return errors.New("it is to be sealed (CollectionOptions.Seal), and the store has no keys (Options.Encryption)")
	}
	s.sealing.Store(!s.Locked() && (stored || must || wanted))
	return nil
}

// Sealing reports whether new records are sealed.
func (s *Sealer) Sealing() bool { return s.sealing.Load() }

// Locked reports whether the ring is locked.
func (s *Sealer) Locked() bool { return s.ring.Locked() }

// Ensure writes the record of the data keys to the file of tx, if new records are sealed and the file does not have
// that record yet.
func (s *Sealer) Ensure(tx *bolt.Tx) error {
	if !s.Sealing() {
		return nil
	}
	return s.ring.Ensure(tx)
}

// key returns the key that seals new records; nil if they are not sealed.
func (s *Sealer) key() *dataKey {
	if !s.Sealing() {
		return nil
	}
	return s.ring.held().current
}

// Append appends a record of the bucket to dst. It seals the record if new records are sealed. h.Terms must be a result
// of Store.
func (s *Sealer) Append(dst, bucket []byte, key string, h format.Header, payload []byte) []byte {
	k := s.key()
	if k == nil {
		return format.AppendRecord(dst, s.collection, key, h, payload)
	}
	h.SealedBy = k.id
	head := format.AppendHeader(nil, h)
	sealed := format.Seal(k.records, format.SealContext(bucket, s.collection, key, head), payload)
	return format.AppendParts(dst, s.collection, key, h.Version(), head, sealed)
}

// Store returns the stored form of terms: tokens if new records are sealed.
func (s *Sealer) Store(terms map[string][]string) map[string][]string {
	if k := s.key(); k != nil {
		return k.tokens(s.collection, terms)
	}
	return terms
}

// Keeps reports whether a new record would be sealed with the same key as the record with this header, or would not be
// sealed, as that record is not.
func (s *Sealer) Keeps(h format.Header) bool {
	if k := s.key(); k != nil {
		return h.SealedBy == k.id
	}
	return h.SealedBy == 0
}

// Payload returns the decrypted payload of a record of the bucket. It does not decompress it. The result shares the
// memory of payload if the record is not sealed. Payload fails with seal.ErrSealed if the ring is locked, and with
// entry.ErrDamaged if the file does not have the key or the payload cannot be decrypted.
func (s *Sealer) Payload(bucket []byte, key string, h format.Header, payload []byte) ([]byte, error) {
	if h.SealedBy == 0 {
		return payload, nil
	}
	k, err := s.ring.of(h.SealedBy)
	if err == nil {
		payload, err = format.Unseal(k.records, format.SealContext(bucket, s.collection, key, h.Head), payload)
	}
	if err != nil {
		return nil, fmt.Errorf("record %s in %s of collection %s: %w", printable.Key(key), bucket, s.collection, damaged(err))
	}
	return payload, nil
}

// Terms returns the terms of the record with the header h, decrypted if they are tokens.
func (s *Sealer) Terms(key string, h format.Header) (map[string][]string, error) {
	if h.SealedBy == 0 || len(h.Terms) == 0 {
		return h.Terms, nil
	}
	all := make(map[string][]string, len(h.Terms))
	for index, tokens := range h.Terms {
		values := make([]string, len(tokens))
		for i, token := range tokens {
			value, err := s.Value(index, token)
			if err != nil {
				return nil, fmt.Errorf("record %s in collection %s: %w", printable.Key(key), s.collection, err)
			}
			values[i] = value
		}
		all[index] = values
	}
	return all, nil
}

// Value returns the value for which a token is stored in an index.
func (s *Sealer) Value(index, token string) (string, error) {
	id, ok := tokenKey(token)
	if !ok {
		return "", fmt.Errorf("a value of index %q: %w", index, damaged(format.ErrNotSealed))
	}
	k, err := s.ring.of(id)
	var value string
	if err == nil {
		value, err = k.value(s.collection, index, token)
	}
	if err != nil {
		return "", fmt.Errorf("a value of index %q: %w", index, damaged(err))
	}
	return value, nil
}

// damaged adds entry.ErrDamaged to an error that wraps format.ErrNotSealed.
func damaged(err error) error {
	if errors.Is(err, format.ErrNotSealed) {
		return fmt.Errorf("%w: %w", err, entry.ErrDamaged)
	}
	return err
}

// Verify returns an error if a sealed record of the bucket cannot be decrypted. Without keys it returns nil. Then only
// the record's checksum, which the caller has verified, protects the record.
func (s *Sealer) Verify(bucket []byte, key string, h format.Header, payload []byte) error {
	if h.SealedBy == 0 || s.Locked() {
		return nil
	}
	_, err := s.Payload(bucket, key, h, payload)
	if err == nil {
		_, err = s.Terms(key, h)
	}
	return err
}

// Filed tells index look-ups how the records in an objects bucket store their terms: as plain values or as tokens. It
// implements index.Sealing.
type Filed struct {
	*Sealer
	Objects *bolt.Bucket
}

// Tokens returns the stored forms of the value in the index: a token for each data key.
func (f Filed) Tokens(index, value string) (tokens []string) {
	for _, k := range f.ring.held().byID {
		tokens = append(tokens, k.token(f.collection, index, value))
	}
	return tokens
}

// Sealed reports whether the record with this key is sealed, so that its terms are tokens.
func (f Filed) Sealed(key string) bool { return format.IsSealed(f.Objects.Get([]byte(key))) }
