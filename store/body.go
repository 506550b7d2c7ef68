package store

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
	"github.com/larder-dev/larder/store/internal/compress"
	"github.com/larder-dev/larder/store/internal/format"
)

// body is the payload of a record with what is needed to decode it. Every object that is read from the file is decoded
// from a body.
type body struct {
	encoding string
	payload  []byte               // may be memory of a transaction
	dict     *compress.Dictionary // dictionary the payload is compressed with; nil if it is not compressed
	size     int                  // bytes of the uncompressed payload
}

// body returns the body of a record in the bucket of objects. It opens a sealed payload. It fails with ErrIncompatible
// if a newer program has written the record.
func (r *reader) body(objects *bolt.Bucket, key string, h format.Header, payload []byte) (body, error) {
	b := body{encoding: h.Encoding, payload: payload, size: h.PlainSize(payload)}
	if h.Unknown != 0 {
		return b,
			fmt.Errorf(
				"record %s in collection %s is of version %d, which a newer program has written; a relist that writes every "+
					"body anew repairs it: %w",
				printable.Key(key), r.name, h.Unknown, entry.ErrIncompatible)
	}
	var err error
	if b.payload, err = r.opener().Payload(format.BucketObjects, key, h, payload); err != nil {
		return b, err
	}
	if h.Dictionary == 0 {
		return b, nil
	}
	dict, err := r.dictionary(objects.Tx(), h.Dictionary)
	if err != nil {
		return b, fmt.Errorf("record %s in collection %s: %w", printable.Key(key), r.name, err)
	}
	b.dict = dict
	return b, nil
}

// plain returns the body uncompressed. It decompresses into buf if buf is large enough.
func (r *reader) plain(key string, b body, buf []byte) (body, error) {
	if b.dict == nil {
		return b, nil
	}
	plain, err := b.dict.Decompress(buf, b.payload, b.size)
	if err != nil {
		// The checksums of record and dictionary were right, so the file is not damaged.
		return b, fmt.Errorf("record %s in collection %s cannot be decompressed: %w: %w", printable.Key(key), r.name,
			entry.ErrIncompatible, err)
	}
	return body{encoding: b.encoding, payload: plain, size: b.size}, nil
}

// decodeBody decompresses and decodes the object.
func (r *reader) decodeBody(key string, b body) (runtime.Object, error) {
	if b.dict == nil {
		return r.decodePlain(key, b)
	}
	buffers := &b.dict.Buffers
	buf := buffers.Get().(*[]byte)
	plain, err := r.plain(key, b, *buf)
	if err != nil {
		return nil, err
	}
	obj, err := r.decodePlain(key, plain) // obj shares no memory with plain
	if cap(plain.payload) <= compress.MaxPooled {
		*buf = plain.payload
		buffers.Put(buf)
	}
	return obj, err
}

func (r *reader) decodePlain(key string, b body) (runtime.Object, error) {
	obj, err := codec.Decode(r.codec, b.encoding, b.payload)
	if errors.Is(err, entry.ErrDamaged) {
		// The checksum was right: these are the bytes that were written, so the file is not damaged.
		err = fmt.Errorf("%w: %v", entry.ErrIncompatible, err) //nolint:errorlint // it must not wrap ErrDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("record %s in collection %s: %w", printable.Key(key), r.name, err)
	}
	return obj, nil
}

// decode returns the object of a record in the bucket of objects.
func (r *reader) decode(objects *bolt.Bucket, key string, data []byte) (runtime.Object, error) {
	h, payload, err := format.ParsePayload(r.name, key, data)
	if err != nil {
		return nil, err
	}
	return r.decodeRecord(objects, key, h, payload)
}

// decodeRecord is decode for a record that has been parsed.
func (r *reader) decodeRecord(
	objects *bolt.Bucket, key string, h format.Header, payload []byte,
) (runtime.Object, error) {
	b, err := r.body(objects, key, h, payload)
	if err != nil {
		return nil, err
	}
	return r.decodeBody(key, b)
}
