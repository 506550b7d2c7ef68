package engine

import (
	"errors"

	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

// StoredRecord is the file's record under a key. It is valid until the transaction ends.
type StoredRecord struct {
	format.Header
	Found   bool   // Found is false without a record; the other fields are zero then.
	Payload []byte // Payload is memory of the transaction.
	Objects *bolt.Bucket
}

func (r *Reader) Stored(objects *bolt.Bucket, key string) (StoredRecord, error) {
	data := objects.Get([]byte(key))
	if data == nil {
		return StoredRecord{}, nil
	}
	h, payload, err := format.ParseRecord(r.Name, key, data)
	return StoredRecord{Header: h, Found: true, Payload: payload, Objects: objects}, err
}

// Object decodes a stored record. It returns nil for a record that this program cannot decode: no reader has seen its
// object. An error wraps entry.ErrDamaged.
func (r *Reader) Object(key string, s StoredRecord) (runtime.Object, error) {
	if !s.Found {
		return nil, nil
	}
	obj, err := r.Coder.ObjectOf(s.Objects, key, s.Header, s.Payload)
	if err != nil && !errors.Is(err, entry.ErrDamaged) {
		return nil, nil //nolint:nilerr // No reader has seen an undecodable object.
	}
	return obj, err
}

// RefOf returns the identity in the write x, or in the record if x is nil. It verifies the record's checksum.
func (r *Reader) RefOf(key string, data []byte, x *Write) (entry.ObjectRef, error) {
	if x != nil {
		return entry.ObjectRef{Key: key, UID: x.UID, ResourceVersion: x.RV}, nil
	}
	h, err := format.ParseHeader(r.Name, key, data)
	return entry.ObjectRef{Key: key, UID: h.UID, ResourceVersion: h.RV}, err
}
