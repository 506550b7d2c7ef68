package crypt

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/format"
)

// Body is the payload of a record, that is, the encoded object, with the data needed to decode it.
type Body struct {
	Encoding string
	Payload  []byte      // Payload is the encoded object, perhaps memory of a transaction.
	Size     int         // Size is the number of bytes of the uncompressed payload.
	dict     *Dictionary // dict compressed the payload; nil for an uncompressed payload.
}

// Compressed reports whether the payload is compressed.
func (b Body) Compressed() bool { return b.dict != nil }

// Coder decrypts, decompresses and decodes the stored objects of one collection. It is safe for concurrent use.
type Coder struct {
	*Sealer
	*Dictionaries
	codec      codec.Codec
	collection string
}

// NewCoder returns the Coder of a collection. Objects are encoded with codec and sealed with keys of the ring.
func NewCoder(collection string, codec codec.Codec, keys *Ring) *Coder {
	sealer := keys.Sealer(collection)
	return &Coder{Sealer: sealer, Dictionaries: NewDictionaries(collection, sealer), codec: codec,
		collection: collection}
}

// Open returns the unsealed body of a record. It fails with entry.ErrIncompatible if a newer program wrote the record.
func (c *Coder) Open(objects *bolt.Bucket, key string, h format.Header, payload []byte) (Body, error) {
	b := Body{Encoding: h.Encoding, Payload: payload, Size: h.PlainSize(payload)}
	if h.Unknown != 0 {
		return b,
			fmt.Errorf(
				"record %s in collection %s is of version %d, which a newer program has written; a relist that writes every "+
					"body anew repairs it: %w",
				base.PrintableKey(key), c.collection, h.Unknown, entry.ErrIncompatible)
	}
	var err error
	if b.Payload, err = c.Payload(format.BucketObjects, key, h, payload); err != nil {
		return b, err
	}
	if h.Dictionary == 0 {
		return b, nil
	}
	if b.dict, err = c.Get(objects.Tx(), h.Dictionary); err != nil {
		return b, fmt.Errorf("record %s in collection %s: %w", base.PrintableKey(key), c.collection, err)
	}
	return b, nil
}

// OpenPlain returns the unsealed and decompressed body of a record: it calls Open, then Plain.
func (c *Coder) OpenPlain(objects *bolt.Bucket, key string, h format.Header, payload []byte) (Body, error) {
	b, err := c.Open(objects, key, h, payload)
	if err != nil {
		return b, err
	}
	return c.Plain(key, b, nil)
}

// Plain returns the uncompressed body. It decompresses into buf if buf is large enough.
func (c *Coder) Plain(key string, b Body, buf []byte) (Body, error) {
	if b.dict == nil {
		return b, nil
	}
	plain, err := b.dict.Decompress(buf, b.Payload, b.Size)
	if err != nil {
		// The checksums of the record and of the dictionary are right, so the file is not damaged.
		return b, fmt.Errorf("record %s in collection %s cannot be decompressed: %w: %w",
			base.PrintableKey(key), c.collection, entry.ErrIncompatible, err)
	}
	return Body{Encoding: b.Encoding, Payload: plain, Size: b.Size}, nil
}

// Decode decompresses and decodes the object.
func (c *Coder) Decode(key string, b Body) (runtime.Object, error) {
	if b.dict == nil {
		return c.decodePlain(key, b)
	}
	buffers := &b.dict.Buffers
	buf := buffers.Get().(*[]byte)
	plain, err := c.Plain(key, b, *buf)
	if err != nil {
		return nil, err
	}
	// The buffer can be reused, because obj shares no memory with plain.
	obj, err := c.decodePlain(key, plain)
	if cap(plain.Payload) <= MaxPooled {
		*buf = plain.Payload
		buffers.Put(buf)
	}
	return obj, err
}

func (c *Coder) decodePlain(key string, b Body) (runtime.Object, error) {
	obj, err := codec.Decode(c.codec, b.Encoding, b.Payload)
	if errors.Is(err, entry.ErrDamaged) {
		// The checksum of the record is right, so the file is not damaged.
		err = fmt.Errorf("%w: %v", entry.ErrIncompatible, err) //nolint:errorlint // The error must not wrap ErrDamaged.
	}
	if err != nil {
		return nil, fmt.Errorf("record %s in collection %s: %w", base.PrintableKey(key), c.collection, err)
	}
	return obj, nil
}

// Object returns the decoded object of a record in the objects bucket.
func (c *Coder) Object(objects *bolt.Bucket, key string, data []byte) (runtime.Object, error) {
	h, payload, err := format.ParsePayload(c.collection, key, data)
	if err != nil {
		return nil, err
	}
	return c.ObjectOf(objects, key, h, payload)
}

// ObjectOf returns the object of a record that is already split into header and payload.
func (c *Coder) ObjectOf(objects *bolt.Bucket, key string, h format.Header, payload []byte) (runtime.Object, error) {
	b, err := c.Open(objects, key, h, payload)
	if err != nil {
		return nil, err
	}
	return c.Decode(key, b)
}

// Sealer seals and opens the records of one collection. It opens records sealed with any key of the ring, and returns
// unsealed records unchanged. It is safe for concurrent use.
type Sealer struct {
	ring *Ring
	// collection is the name of the collection's bucket. Sealed data can be opened only for this collection.
	collection string
	sealing    atomic.Bool // sealing is true if new records are sealed.
}

// Sealer returns the Sealer of a collection. It does not seal new records before Begin.
func (r *Ring) Sealer(collection string) *Sealer { return &Sealer{ring: r, collection: collection} }

// Begin makes the Sealer seal new records if the stored records are sealed, if the caller requires it (must), or if the
// store's options ask for it (wanted). In a locked ring, Begin fails if the stored records are sealed or must is true.
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

// Ensure writes the record of the data keys to a file that lacks it, if new records are sealed.
func (s *Sealer) Ensure(tx *bolt.Tx) error {
	if !s.Sealing() {
		return nil
	}
	return s.ring.Ensure(tx)
}

// key returns the key that seals new records, or nil if they are not sealed.
func (s *Sealer) key() *dataKey {
	if !s.Sealing() {
		return nil
	}
	return s.ring.held().current
}

// Append appends a record of the bucket to dst, sealed if new records are sealed. h.Terms must be a result of Store.
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

// Keeps reports whether a new record would have the same seal as the record with the header h: the same key, or none.
func (s *Sealer) Keeps(h format.Header) bool {
	if k := s.key(); k != nil {
		return h.SealedBy == k.id
	}
	return h.SealedBy == 0
}

// Payload returns the decrypted payload of a record of the bucket, without decompression. For an unsealed record it
// returns payload. It fails with seal.ErrSealed in a locked ring, and with entry.ErrDamaged if the file does not have
// the key or the payload cannot be decrypted.
func (s *Sealer) Payload(bucket []byte, key string, h format.Header, payload []byte) ([]byte, error) {
	if h.SealedBy == 0 {
		return payload, nil
	}
	k, err := s.ring.of(h.SealedBy)
	if err == nil {
		payload, err = format.Unseal(k.records, format.SealContext(bucket, s.collection, key, h.Head), payload)
	}
	switch err = damaged(err); {
	case err == nil:
		return payload, nil
	case errors.Is(err, entry.ErrDamaged) && bytes.Equal(bucket, format.BucketObjects):
		return nil, &format.DamagedRecord{Collection: s.collection, Key: key, Err: err}
	}
	return nil, fmt.Errorf("record %s in %s of collection %s: %w", base.PrintableKey(key), bucket, s.collection, err)
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
				return nil, fmt.Errorf("record %s in collection %s: %w", base.PrintableKey(key), s.collection, err)
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

func damaged(err error) error {
	if errors.Is(err, format.ErrNotSealed) {
		return fmt.Errorf("%w: %w", err, entry.ErrDamaged)
	}
	return err
}

// Verify returns an error if a sealed record of the bucket cannot be decrypted. In a locked ring it returns nil; then
// only the record's checksum protects the record.
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

// FiledTerms implements engine.Sealing: it knows which records in an objects bucket store their terms as tokens.
type FiledTerms struct {
	*Sealer
	Objects *bolt.Bucket
}

// Tokens returns the stored forms of the value in the index: a token for each data key.
func (f FiledTerms) Tokens(index, value string) (tokens []string) {
	for _, k := range f.ring.held().byID {
		tokens = append(tokens, k.token(f.collection, index, value))
	}
	return tokens
}

// Sealed reports whether the record with this key is sealed, so that its terms are tokens.
func (f FiledTerms) Sealed(key string) bool { return format.IsSealed(f.Objects.Get([]byte(key))) }
