package crypt

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

// Dictionary holds content that payloads of a collection have in common, and compresses some of its records. It never
// changes. Its id is a hash of its content, or a random number in a sealed collection. The content is raw parts of
// payloads. For Kubernetes objects they compress better than a trained dictionary (docs/adr/0007).
type Dictionary struct {
	ID      uint64
	Content []byte
	encoder func() (*zstd.Encoder, error)
	decoder func() (*zstd.Decoder, error)
	// Buffers holds buffers (*[]byte) into which payloads are decompressed for immediate decoding.
	Buffers sync.Pool
}

// MaxPooled is the maximum size of a buffer that is kept for the next read.
const MaxPooled = 1 << 20

// NewDictionary returns a dictionary that keeps content.
func NewDictionary(content []byte) *Dictionary {
	return NewDictionaryWithID(format.DictionaryID(content), content)
}

// NewDictionaryWithID returns a dictionary with this content, which it keeps, and with a known id.
func NewDictionaryWithID(id uint64, content []byte) *Dictionary {
	d := &Dictionary{ID: id, Content: content}
	// The record names the dictionary, so the zstd frame need not.
	d.encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderDictRaw(0, content), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderCRC(false),
			zstd.WithEncoderConcurrency(encoders()), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window))
	})
	d.decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderDictRaw(0, content), zstd.WithDecoderConcurrency(0),
			zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(format.MaxDecompressed))
	})
	d.Buffers.New = func() any { return new([]byte) }
	return d
}

// compress returns nil if the compressed payload would not be shorter.
func (d *Dictionary) compress(payload []byte) []byte {
	if len(payload) == 0 || len(payload) > format.MaxDecompressed {
		return nil
	}
	encoder, err := d.encoder()
	if err != nil {
		return nil
	}
	compressed := encoder.EncodeAll(payload, make([]byte, 0, len(payload)/2))
	if len(compressed)+overhead >= len(payload) {
		return nil
	}
	return compressed
}

// window is how far back the encoder searches for matches, in addition to the dictionary. A larger window takes more
// memory and gains nothing: the default takes 5 MB per encoder instead of 0.8.
const window = 128 << 10

// overhead is the approximate number of header bytes that compression adds to a record.
const overhead = 16

// slack is extra capacity behind the payload, so that the decoder can copy in larger pieces.
const slack = 16

// Decompress returns the payload, which must have this size. It uses the memory of buf if that is large enough.
func (d *Dictionary) Decompress(buf, compressed []byte, size int) ([]byte, error) {
	decoder, err := d.decoder()
	if err != nil {
		return nil, err
	}
	buf = slices.Grow(buf[:0], size+slack)
	// The decoder writes at most cap bytes, even if the frame is longer.
	plain, err := decoder.DecodeAll(compressed, buf[:0:size+slack])
	if err != nil {
		return nil, err
	}
	if len(plain) != size {
		return nil, fmt.Errorf("%d bytes where the header says %d", len(plain), size)
	}
	return buf[:size], nil // The pool keeps the whole capacity for the next payload.
}

// IsHashed reports whether the id is a hash of the content, as in dictionaries for unsealed records.
func (d *Dictionary) IsHashed() bool { return d.ID == format.DictionaryID(d.Content) }

// DictionaryOpener decrypts the payloads of dictionary records. Sealer implements it.
type DictionaryOpener interface {
	Payload(bucket []byte, key string, h format.Header, payload []byte) ([]byte, error)
}

// DictionaryRecords opens and appends dictionary records, and seals them in a sealed collection. Sealer implements it.
type DictionaryRecords interface {
	DictionaryOpener
	Append(dst, bucket []byte, key string, h format.Header, payload []byte) []byte
}

// Dictionaries gives access to a collection's stored dictionaries, and caches them. It is safe for concurrent use.
type Dictionaries struct {
	collection string
	records    DictionaryRecords

	mu   sync.RWMutex
	byID map[uint64]*Dictionary // byID has the used dictionaries; guarded by mu.
}

// NewDictionaries returns the Dictionaries of a collection.
func NewDictionaries(collection string, records DictionaryRecords) *Dictionaries {
	return &Dictionaries{collection: collection, records: records, byID: map[uint64]*Dictionary{}}
}

// Get returns the dictionary with this id, from memory or from the transaction, which must belong to the collection's
// file. It fails with entry.ErrDamaged for an unknown id.
func (d *Dictionaries) Get(tx *bolt.Tx, id uint64) (*Dictionary, error) {
	d.mu.RLock()
	found := d.byID[id]
	d.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	b := tx.Bucket(format.BucketLarder).Bucket([]byte(d.collection))
	found, err := StoredDictionary(b, d.collection, id, d.records)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.byID[id]; known != nil { // All readers share the dictionary that the first reader has read.
		return known, nil
	}
	d.byID[id] = found
	return found, nil
}

// Put stores a dictionary in the bucket of the collection, unless it is stored already.
func (d *Dictionaries) Put(b *bolt.Bucket, dict *Dictionary) error {
	dicts, err := b.CreateBucketIfNotExists(format.BucketDictionaries)
	if err != nil || dicts.Get(format.DictionaryKey(dict.ID)) != nil {
		return err
	}
	return dicts.Put(format.DictionaryKey(dict.ID),
		d.records.Append(nil, format.BucketDictionaries, format.DictionaryRecordKey(dict.ID), format.DictionaryHeader,
			dict.Content))
}

// Drop removes the dictionaries that no record in objects uses, from the collection's bucket b. It keeps the dictionary
// using, which may be nil. It returns the ids of the needed dictionaries, or nil if it has removed nothing.
func (d *Dictionaries) Drop(b, objects *bolt.Bucket, using *Dictionary) (needed map[uint64]bool, err error) {
	dicts := b.Bucket(format.BucketDictionaries)
	if dicts == nil {
		return nil, nil
	}
	needed = map[uint64]bool{}
	if using != nil {
		needed[using.ID] = true
	}
	if keys, err := unneeded(dicts, needed); err != nil || len(keys) == 0 {
		return nil, err
	}
	err = objects.ForEach(func(k, data []byte) error {
		h, err := format.ParseHeader(d.collection, string(k), data)
		needed[h.Dictionary] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	keys, err := unneeded(dicts, needed)
	for _, k := range keys {
		if err == nil {
			err = dicts.Delete(k)
		}
	}
	return needed, err
}

func unneeded(dicts *bolt.Bucket, needed map[uint64]bool) (keys [][]byte, err error) {
	err = dicts.ForEach(func(k, _ []byte) error {
		if id, ok := format.ParseDictionaryKey(k); !ok || !needed[id] {
			keys = append(keys, bytes.Clone(k))
		}
		return nil
	})
	return keys, err
}

// StoredDictionary reads a dictionary from the bucket of a collection. It fails with entry.ErrDamaged for an unknown
// id.
func StoredDictionary(b *bolt.Bucket, collection string, id uint64, o DictionaryOpener) (*Dictionary, error) {
	var data []byte
	if dicts := b.Bucket(format.BucketDictionaries); dicts != nil {
		data = dicts.Get(format.DictionaryKey(id))
	}
	if data == nil {
		return nil, fmt.Errorf("dictionary %016x of collection %s is not there: %w", id, collection, entry.ErrDamaged)
	}
	return ParseDictionary(collection, id, data, o)
}

// ParseDictionary returns the dictionary in the record data, with which it shares no memory. It fails with
// entry.ErrDamaged if the record is not of this dictionary, and with entry.ErrIncompatible if a newer program wrote the
// record.
func ParseDictionary(collection string, id uint64, data []byte, o DictionaryOpener) (*Dictionary, error) {
	key := format.DictionaryRecordKey(id)
	h, content, err := format.ParseOther(collection, key, data)
	if err != nil {
		return nil, err
	}
	if h.Unknown != 0 {
		return nil, fmt.Errorf("dictionary %016x of collection %s has version %d, which this program does not know: %w",
			id, collection, h.Unknown, entry.ErrIncompatible)
	}
	if h.Encoding != format.DictionaryHeader.Encoding {
		return nil, fmt.Errorf("dictionary %016x of collection %s is a %q, which this program does not know: %w", id,
			collection, h.Encoding, entry.ErrIncompatible)
	}
	if h.SealedBy != 0 && h.Dictionary == 0 {
		if content, err = o.Payload(format.BucketDictionaries, key, h, content); err != nil {
			return nil, err
		}
		return NewDictionaryWithID(id, content), nil
	}
	if h.Version() != format.RecordVersion || format.DictionaryID(content) != id {
		return nil, fmt.Errorf("dictionary %016x of collection %s has another content: %w", id, collection,
			entry.ErrDamaged)
	}
	return NewDictionary(bytes.Clone(content)), nil
}
