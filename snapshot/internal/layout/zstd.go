package layout

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// encoderWindow is the window size of the zstd encoder. It covers all blocks, except those with very large records.
const encoderWindow = 512 << 10

// Compressor compresses blocks. Only one goroutine may use it at a time.
type Compressor struct {
	encoder *zstd.Encoder
	out     []byte
}

func NewCompressor() (*Compressor, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(encoderWindow))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Compressor{encoder: e}, nil
}

// Compress returns the block, compressed if that saves bytes. The result is valid until the next call.
func (c *Compressor) Compress(body []byte) []byte {
	c.out = c.encoder.EncodeAll(body, Reuse(c.out))
	if len(c.out) >= len(body) {
		return body
	}
	return c.out
}

// Reuse returns b with length 0 for reuse, or nil if a large record has made b too large to keep.
func Reuse(b []byte) []byte {
	if cap(b) > 4*BlockTarget {
		return nil
	}
	return b[:0]
}

// Decompressor decompresses blocks. Only one goroutine may use it at a time.
type Decompressor struct {
	decoder *zstd.Decoder
	out     []byte
}

func NewDecompressor() (*Decompressor, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxPart), zstd.WithDecoderMaxWindow(MaxPart), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Decompressor{decoder: d}, nil
}

// Decompress decompresses a stored block to exactly size bytes. The result is valid until the next call.
func (d *Decompressor) Decompress(stored []byte, size int) ([]byte, error) {
	if size == len(stored) {
		return stored, nil
	}
	if cap(d.out) < size || size <= BlockTarget && Reuse(d.out) == nil {
		d.out = make([]byte, 0, max(size, min(2*cap(d.out), BlockTarget+BlockTarget/4)))
	}
	out, err := d.decoder.DecodeAll(stored, d.out[:0:size])
	if err != nil {
		return nil, err
	}
	if len(out) != size {
		return nil, fmt.Errorf("it has %d bytes, not the %d that were announced", len(out), size)
	}
	return out, nil
}
