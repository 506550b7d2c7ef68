package compress

import (
	"bytes"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

// Opener decrypts the payload of a record; see seal.Opener.
type Opener interface {
	Payload(bucket []byte, key string, h format.Header, payload []byte) ([]byte, error)
}

// Stored reads a dictionary from the bucket of a collection. It fails with entry.ErrDamaged if there is none with that
// id.
func Stored(b *bolt.Bucket, collection string, id uint64, o Opener) (*Dictionary, error) {
	var data []byte
	if dicts := b.Bucket(format.BucketDictionaries); dicts != nil {
		data = dicts.Get(format.DictionaryKey(id))
	}
	if data == nil {
		return nil, fmt.Errorf("dictionary %016x of collection %s is not there: %w", id, collection, entry.ErrDamaged)
	}
	return Parse(collection, id, data, o)
}

// Parse returns the dictionary of the record data, with which it shares no memory. It fails with entry.ErrDamaged if
// the record is not that of the dictionary.
func Parse(collection string, id uint64, data []byte, o Opener) (*Dictionary, error) {
	place := format.DictionaryPlace(id)
	h, content, err := format.ParseRecord(collection, place, data)
	if err != nil {
		return nil, err
	}
	if h.SealedBy != 0 && h.Dictionary == 0 {
		if content, err = o.Payload(format.BucketDictionaries, place, h, content); err != nil {
			return nil, err
		}
		return WithID(id, content), nil
	}
	if h.Version() != format.RecordVersion || format.DictionaryID(content) != id {
		return nil, fmt.Errorf("dictionary %016x of collection %s has another content: %w", id, collection,
			entry.ErrDamaged)
	}
	return New(bytes.Clone(content)), nil
}
