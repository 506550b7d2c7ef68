package crypt

import (
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

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
