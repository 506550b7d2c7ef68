package compress

import (
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/larder-dev/larder/store/internal/format"
)

// Dictionary is what payloads of a collection have in common, and what some of its records are compressed with. It does
// not change: the file keeps it for as long as a record names it, under a hash of its content, or, if it is sealed,
// under a random number. It is raw content, parts of payloads, which for Kubernetes objects compresses better than what
// is trained of them (docs/adr/0007).
type Dictionary struct {
	ID      uint64
	Content []byte
	encoder func() (*zstd.Encoder, error)
	decoder func() (*zstd.Decoder, error)
	// buffers are *[]byte for payloads that are decoded at once.
	Buffers sync.Pool
}

// MaxPooled is how long a buffer is that is kept for the next read.
const MaxPooled = 1 << 20

// New returns a dictionary of that content, which it keeps.
func New(content []byte) *Dictionary {
	return WithID(format.DictionaryID(content), content)
}

// WithID is New for one whose id is known.
func WithID(id uint64, content []byte) *Dictionary {
	d := &Dictionary{ID: id, Content: content}
	// The frames do not name the dictionary, the records do.
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

// compress compresses a payload. It returns nil if that would not make it shorter.
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

// window is how far back matches are looked for, the dictionary aside. More takes memory and gains nothing: 5 MB
// per encoder instead of 0.8 by default.
const window = 128 << 10

// overhead is about what the header of a record has more if its payload is compressed.
const overhead = 16

// slack is room behind a payload that lets the decoder copy in larger pieces.
const slack = 16

// Decompress returns the payload of that size, in the memory of buf if there is room.
func (d *Dictionary) Decompress(buf, compressed []byte, size int) ([]byte, error) {
	decoder, err := d.decoder()
	if err != nil {
		return nil, err
	}
	buf = slices.Grow(buf[:0], size+slack)
	// The decoder writes no further than the capacity, whatever the frame says.
	plain, err := decoder.DecodeAll(compressed, buf[:0:size+slack])
	if err != nil {
		return nil, err
	}
	if len(plain) != size {
		return nil, fmt.Errorf("%d bytes where the header says %d", len(plain), size)
	}
	return buf[:size], nil // with all of its capacity, for the next one
}

// IsHashed reports whether the id is that of a dictionary which was made not to be sealed.
func (d *Dictionary) IsHashed() bool { return d.ID == format.DictionaryID(d.Content) }
