package store

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

// dictionary is what payloads of a collection have in common, and what some of its records are compressed with. It does not
// change: the file keeps it for as long as a record names it, under a hash of its content, or, if it is sealed, under a random number. It is raw content, parts of payloads, which
// for Kubernetes objects packs better than what is trained of them (docs/adr/0007).
type dictionary struct {
	id      uint64
	content []byte
	encoder func() (*zstd.Encoder, error)
	decoder func() (*zstd.Decoder, error)
	// buffers are *[]byte for payloads that are decoded at once.
	buffers sync.Pool
}

// maxPooled is how long a buffer is that is kept for the next read.
const maxPooled = 1 << 20

func newDictionary(content []byte) *dictionary {
	return dictionaryOf(format.DictionaryID(content), content)
}

// dictionaryOf is newDictionary for one whose id is known.
func dictionaryOf(id uint64, content []byte) *dictionary {
	d := &dictionary{id: id, content: content}
	// The frames do not name the dictionary, the records do.
	d.encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderDictRaw(0, content), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
			zstd.WithEncoderConcurrency(packers()), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(packWindow))
	})
	d.decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderDictRaw(0, content), zstd.WithDecoderConcurrency(0),
			zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(format.MaxUnpacked))
	})
	d.buffers.New = func() any { return new([]byte) }
	return d
}

// pack compresses a payload. It returns nil if that would not make it shorter.
func (d *dictionary) pack(payload []byte) []byte {
	if len(payload) == 0 || len(payload) > format.MaxUnpacked {
		return nil
	}
	encoder, err := d.encoder()
	if err != nil {
		return nil
	}
	packed := encoder.EncodeAll(payload, make([]byte, 0, len(payload)/2))
	if len(packed)+packedOverhead >= len(payload) {
		return nil
	}
	return packed
}

// packWindow is how far back matches are looked for, the dictionary aside. More takes memory and gains nothing: 5 MB per encoder
// instead of 0.8 by default.
const packWindow = 128 << 10

// packedOverhead is about what the header of a record has more if its payload is compressed.
const packedOverhead = 16

// unpackSlack is room behind a payload that lets the decoder copy in larger pieces.
const unpackSlack = 16

// unpack returns the payload of that size, in the memory of buf if there is room.
func (d *dictionary) unpack(buf, packed []byte, size int) ([]byte, error) {
	decoder, err := d.decoder()
	if err != nil {
		return nil, err
	}
	buf = slices.Grow(buf[:0], size+unpackSlack)
	// The decoder writes no further than the capacity, whatever the frame says.
	plain, err := decoder.DecodeAll(packed, buf[:0:size+unpackSlack])
	if err != nil {
		return nil, err
	}
	if len(plain) != size {
		return nil, fmt.Errorf("%d bytes where the header says %d", len(plain), size)
	}
	return buf[:size], nil // with all of its capacity, for the next one
}

// isHashed reports whether the id is that of a dictionary which was made not to be sealed.
func (d *dictionary) isHashed() bool { return d.id == format.DictionaryID(d.content) }

// put stores the dictionary in a collection's bucket, if it is not there.
func (d *dictionary) put(b *bolt.Bucket, c *Collection) error {
	dicts, err := b.CreateBucketIfNotExists(format.BucketDictionaries)
	if err != nil || dicts.Get(format.DictionaryKey(d.id)) != nil {
		return err
	}
	return dicts.Put(format.DictionaryKey(d.id), c.appendRecord(nil, format.BucketDictionaries, format.DictionaryPlace(d.id), format.DictionaryHeader, d.content))
}

// getDictionary reads what put has stored.
func (r *reader) getDictionary(b *bolt.Bucket, id uint64) (*dictionary, error) {
	collection := r.name
	var data []byte
	if dicts := b.Bucket(format.BucketDictionaries); dicts != nil {
		data = dicts.Get(format.DictionaryKey(id))
	}
	if data == nil {
		return nil, fmt.Errorf("dictionary %016x of collection %s is not there: %w", id, collection, entry.ErrDamaged)
	}
	return r.parseDictionary(id, data)
}

// parseDictionary returns a dictionary that shares no memory with data.
func (r *reader) parseDictionary(id uint64, data []byte) (*dictionary, error) {
	place := format.DictionaryPlace(id)
	h, content, err := format.ParseRecord(r.name, place, data)
	if err != nil {
		return nil, err
	}
	if h.SealedBy != 0 && h.Dictionary == 0 {
		if content, err = r.opened(format.BucketDictionaries, place, h, content); err != nil {
			return nil, err
		}
		return dictionaryOf(id, content), nil
	}
	if h.Version() != format.RecordVersion || format.DictionaryID(content) != id {
		return nil, fmt.Errorf("dictionary %016x of collection %s has another content: %w", id, r.name, entry.ErrDamaged)
	}
	return newDictionary(bytes.Clone(content)), nil
}

// dictionaries are those of a collection that have been used. The zero value is empty.
type dictionaries struct {
	mu   sync.RWMutex
	byID map[uint64]*dictionary // guarded by mu
}

// dictionary returns the one of that id, which is read in the transaction if it has not been used yet.
func (r *reader) dictionary(tx *bolt.Tx, id uint64) (*dictionary, error) {
	if found := r.dicts.find(id); found != nil {
		return found, nil
	}
	b, err := collectionBucket(tx, r.name)
	if err != nil {
		return nil, err
	}
	found, err := r.getDictionary(b, id)
	if err != nil {
		return nil, err
	}
	return r.dicts.add(found), nil
}

func (d *dictionaries) find(id uint64) *dictionary {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byID[id]
}

// add returns the one of that id that all others use too.
func (d *dictionaries) add(dict *dictionary) *dictionary {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.byID[dict.id]; known != nil {
		return known
	}
	if d.byID == nil {
		d.byID = map[uint64]*dictionary{}
	}
	d.byID[dict.id] = dict
	return dict
}
