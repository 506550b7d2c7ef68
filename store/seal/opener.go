package seal

import (
	"errors"
	"fmt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/format"
)

// Opener decrypts the records of one collection. What is not sealed it returns as it is.
type Opener struct {
	// Collection is the name of the collection's bucket, to which all that is sealed in it is bound.
	Collection string
	// Key returns the data key with that id. It fails with ErrSealed if there are no keys, and with entry.ErrDamaged if
	// the file lacks the key.
	Key func(id uint64) (*DataKey, error)
	// Locked says that there are no keys: Verify then passes what is sealed.
	Locked bool
}

// Payload returns the decrypted payload of a record of the bucket, compressed as it was. The result shares the memory
// of payload if the record is not sealed.
func (o Opener) Payload(bucket []byte, key string, h format.Header, payload []byte) ([]byte, error) {
	if h.SealedBy == 0 {
		return payload, nil
	}
	k, err := o.Key(h.SealedBy)
	if err == nil {
		payload, err = OpenWith(k.Records, nil, format.SealContext(bucket, o.Collection, key, h.Head), payload)
	}
	if errors.Is(err, ErrNotSealed) {
		err = fmt.Errorf("%w: %w", err, entry.ErrDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("record %s in %s of collection %s: %w", printable.Key(key), bucket, o.Collection, err)
	}
	return payload, nil
}

// Terms returns the terms of the object whose record has header h, decrypted if they are tokens.
func (o Opener) Terms(key string, h format.Header) (map[string][]string, error) {
	if h.SealedBy == 0 || len(h.Terms) == 0 {
		return h.Terms, nil
	}
	all := make(map[string][]string, len(h.Terms))
	for index, tokens := range h.Terms {
		values := make([]string, len(tokens))
		for i, token := range tokens {
			value, err := o.Value(index, token)
			if err != nil {
				return nil, fmt.Errorf("record %s in collection %s: %w", printable.Key(key), o.Collection, err)
			}
			values[i] = value
		}
		all[index] = values
	}
	return all, nil
}

// Value returns the value that a token stands for in an index.
func (o Opener) Value(index, token string) (string, error) {
	id, ok := TokenKey(token)
	if !ok {
		return "", fmt.Errorf("a value of index %q: %w: %w", index, ErrNotSealed, entry.ErrDamaged)
	}
	k, err := o.Key(id)
	var value string
	if err == nil {
		value, err = k.Value(o.Collection, index, token)
	}
	if errors.Is(err, ErrNotSealed) {
		err = fmt.Errorf("%w: %w", err, entry.ErrDamaged)
	}
	if err != nil {
		return "", fmt.Errorf("a value of index %q: %w", index, err)
	}
	return value, nil
}

// Verify returns an error if a sealed record of the bucket cannot be decrypted. Without keys it returns nil: then only
// the record's checksum, which the caller has verified, says that the record is whole.
func (o Opener) Verify(bucket []byte, key string, h format.Header, payload []byte) error {
	if h.SealedBy == 0 || o.Locked {
		return nil
	}
	_, err := o.Payload(bucket, key, h, payload)
	if err == nil {
		_, err = o.Terms(key, h)
	}
	return err
}
