package crypt

import (
	"errors"
	"fmt"

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

func (b Body) Compressed() bool { return b.dict != nil }

// Coder decrypts, decompresses and decodes the stored objects of one collection. It is safe for concurrent use.
type Coder struct {
	*Sealer
	*Dictionaries
	codec      codec.Codec
	collection string
}

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

func (c *Coder) Object(objects *bolt.Bucket, key string, data []byte) (runtime.Object, error) {
	h, payload, err := format.ParsePayload(c.collection, key, data)
	if err != nil {
		return nil, err
	}
	return c.ObjectOf(objects, key, h, payload)
}

func (c *Coder) ObjectOf(objects *bolt.Bucket, key string, h format.Header, payload []byte) (runtime.Object, error) {
	b, err := c.Open(objects, key, h, payload)
	if err != nil {
		return nil, err
	}
	return c.Decode(key, b)
}
