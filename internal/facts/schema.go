package facts

import (
	"bytes"
	"context"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxSchema is the maximum size in bytes of a schema that is read; Kubernetes' largest schema has 1.6 MB. A schema of n
// compressed bytes may decompress to at most leastSchema + maxSchemaRatio*n bytes. Servers' schemas compress to a tenth
// or less, and a document of some hundred bytes must not cost megabytes for each request.
const (
	maxSchema      = 32 << 20
	leastSchema    = 1 << 20
	maxSchemaRatio = 64
)

// OpenAPI returns the OpenAPI v3 document of a group-version, in JSON and byte for byte as the server sent it, and the
// server's hash of it. The document is nil if it is not stored. hold may be nil. Otherwise OpenAPI calls hold with the
// size of the document before decompressing it, and returns the error of hold.
func OpenAPI(ctx context.Context, d Documents, gv schema.GroupVersion, hold func(bytes int) error) (
	document []byte, hash string, err error,
) {
	hash, compressed, err := readSchema(ctx, d, gv)
	if err != nil || compressed == nil {
		return nil, "", err
	}
	size := sizeOfSchema(compressed)
	if hold != nil {
		if err := hold(size); err != nil {
			return nil, "", err
		}
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(uint64(max(size, leastSchema))))
	if err == nil {
		defer r.Close()
		document, err = r.DecodeAll(compressed, nil)
	}
	if err != nil {
		return nil, "", fmt.Errorf("document %q cannot be decompressed: %w", schemaPrefix+pathOf(gv), err)
	}
	return document, hash, nil
}

// sizeOfSchema returns the decompressed size that the header of a compressed schema claims. It returns the maximum size
// if the header has no size or a larger one.
func sizeOfSchema(compressed []byte) int {
	var h zstd.Header
	most := min(maxSchema, leastSchema+maxSchemaRatio*len(compressed))
	if h.Decode(compressed) != nil || !h.HasFCS || h.FrameContentSize > uint64(most) {
		return most
	}
	return int(h.FrameContentSize)
}

// readSchema returns the hash of a stored schema, and the schema as a zstd frame, which is nil if no schema is stored.
func readSchema(ctx context.Context, d Documents, gv schema.GroupVersion) (hash string, compressed []byte, err error) {
	data, err := d.Document(ctx, schemaPrefix+pathOf(gv))
	if err != nil || data == nil {
		return "", nil, err
	}
	before, compressed, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return "", nil, fmt.Errorf("document %q has no hash", schemaPrefix+pathOf(gv))
	}
	return string(before), compressed, nil
}

// encoderWindow is the window size, in bytes, of the zstd encoder for schemas. A larger window makes schemas hardly
// smaller, but takes most of the memory of a small mirror. The same holds for zstd's best compression level, which
// makes schemas 5% smaller.
const encoderWindow = 512 << 10

func newSchemaEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(encoderWindow))
}

func encodeSchema(w *zstd.Encoder, hash string, document []byte) []byte {
	return w.EncodeAll(document, append([]byte(hash), '\n'))
}
