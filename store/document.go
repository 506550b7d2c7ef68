package store

import (
	"bytes"
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// DocumentServerVersion is the name of a document with the API server's version: its answer to /version, or text such
// as v1.36.3. A program may store it for snapshots of the store.
const DocumentServerVersion = "server-version"

// maxDocument is the maximum size of a document in bytes, since a document is read into memory in one piece.
const maxDocument = 16 << 20

// Document returns the document that PutDocument has stored under that name; nil if there is none. If its checksum is
// wrong, Document returns ErrDamaged; the store keeps writing, and PutDocument repairs the document.
func (s *Store) Document(ctx context.Context, name string) ([]byte, error) {
	data, err := documentRecord(ctx, s.file, name)
	if err != nil || data == nil {
		return nil, err
	}
	payload, err := format.ParseDocument(name, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.file.Path, err)
	}
	return payload, nil
}

// PutDocument stores data of at most 16 MiB under a name, in a transaction of its own, unless the document has that
// data already. Documents are for data that a program keeps beside its collections and can fetch again, for example an
// API server's discovery. Do not store data of objects: documents are never sealed.
func (s *Store) PutDocument(ctx context.Context, name string, data []byte) error {
	if len(data) > maxDocument {
		return fmt.Errorf("document %q: %d bytes are more than %d", name, len(data), maxDocument)
	}
	record := format.AppendDocument(nil, name, data)
	stored, err := documentRecord(ctx, s.file, name)
	if err == nil && bytes.Equal(stored, record) {
		return nil
	}
	err = s.file.Update(ctx, boltfile.Upkeep, func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(format.BucketDocuments)
		if err != nil {
			return err
		}
		return b.Put([]byte(name), record)
	})
	if err != nil {
		return fmt.Errorf("document %q: %w", name, err)
	}
	return nil
}

// Documents returns the names of all documents, sorted by bytes.
func (s *Store) Documents(ctx context.Context) (names []string, err error) {
	err = s.file.View(ctx, func(tx *bolt.Tx) error {
		b := tx.Bucket(format.BucketDocuments)
		if b == nil {
			return nil
		}
		return b.ForEach(func(name, _ []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	return names, err
}

// DeleteDocument removes the document of that name, if there is one, in a transaction of its own.
func (s *Store) DeleteDocument(ctx context.Context, name string) error {
	stored, err := documentRecord(ctx, s.file, name)
	if err == nil && stored == nil && !s.ReadOnly() {
		return nil
	}
	err = s.file.Update(ctx, boltfile.Upkeep, func(tx *bolt.Tx) error {
		if b := tx.Bucket(format.BucketDocuments); b != nil {
			return b.Delete([]byte(name))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("document %q: %w", name, err)
	}
	return nil
}

// documentRecord returns a copy of a document's record; nil if there is none. The caller parses the copy outside of the
// transaction: damage that is found inside a transaction stops all writing.
func documentRecord(ctx context.Context, f *boltfile.File, name string) (data []byte, err error) {
	err = f.View(ctx, func(tx *bolt.Tx) error {
		if b := tx.Bucket(format.BucketDocuments); b != nil {
			data = bytes.Clone(b.Get([]byte(name)))
		}
		return nil
	})
	return data, err
}
