package layout

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// encoderWindow is how far back the encoder looks: it covers all blocks except those of large records.
const encoderWindow = 512 << 10

// Packer compresses blocks. It is used by one goroutine at a time.
type Packer struct {
	encoder *zstd.Encoder
	out     []byte
}

// NewPacker returns a Packer with its tables, some MiB.
func NewPacker() (*Packer, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(encoderWindow))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Packer{encoder: e}, nil
}

// Pack returns body compressed, or body itself if that is not smaller. The result is valid until the next call.
func (p *Packer) Pack(body []byte) []byte {
	p.out = p.encoder.EncodeAll(body, LetGo(p.out))
	if len(p.out) >= len(body) {
		return body
	}
	return p.out
}

// LetGo returns b with length 0, or nil if a large record has made it large.
func LetGo(b []byte) []byte {
	if cap(b) > 4*BlockTarget {
		return nil
	}
	return b[:0]
}

// Unpacker decompresses blocks. It is used by one goroutine at a time.
type Unpacker struct {
	decoder *zstd.Decoder
	out     []byte
}

// NewUnpacker returns an Unpacker.
func NewUnpacker() (*Unpacker, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxPart), zstd.WithDecoderMaxWindow(MaxPart), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Unpacker{decoder: d}, nil
}

// Unpack decompresses stored to exactly size bytes. The result is valid until the next call.
func (u *Unpacker) Unpack(stored []byte, size int) ([]byte, error) {
	if size == len(stored) {
		return stored, nil
	}
	if cap(u.out) < size || size <= BlockTarget && LetGo(u.out) == nil {
		u.out = make([]byte, 0, max(size, min(2*cap(u.out), BlockTarget+BlockTarget/4)))
	}
	out, err := u.decoder.DecodeAll(stored, u.out[:0:size])
	if err != nil {
		return nil, err
	}
	if len(out) != size {
		return nil, fmt.Errorf("it has %d bytes, not the %d that were announced", len(out), size)
	}
	return out, nil
}
