package snapshot

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// encoderWindow is how far back the encoder looks: a block, but for those of large records.
const encoderWindow = 512 << 10

// packer compresses bodies. It is used by one goroutine at a time.
type packer struct {
	encoder *zstd.Encoder
	out     []byte
}

func newPacker() (*packer, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(encoderWindow))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &packer{encoder: e}, nil
}

// pack returns body compressed, or as it is where that is not larger. It is valid until the next call.
func (p *packer) pack(body []byte) (stored []byte, compression byte) {
	p.out = p.encoder.EncodeAll(body, letGo(p.out))
	if len(p.out) >= len(body) {
		return body, bodyPlain
	}
	return p.out, bodyZstd
}

// letGo returns b empty, or nil where it has become large: a large record is past.
func letGo(b []byte) []byte {
	if cap(b) > 4*blockTarget {
		return nil
	}
	return b[:0]
}

// unpacker is the inverse. It is used by one goroutine at a time.
type unpacker struct {
	decoder *zstd.Decoder
	out     []byte
}

func newUnpacker() (*unpacker, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxBody), zstd.WithDecoderMaxWindow(maxBody), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &unpacker{decoder: d}, nil
}

// unpack returns what stored holds, which must be size bytes. It is valid until the next call.
func (u *unpacker) unpack(stored []byte, size int) ([]byte, error) {
	if cap(u.out) < size || size <= blockTarget && letGo(u.out) == nil {
		u.out = make([]byte, 0, max(size, min(2*cap(u.out), blockTarget+blockTarget/4)))
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

func (u *unpacker) close() { u.decoder.Close() }
