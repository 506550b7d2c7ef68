package engine

import (
	"github.com/larder-dev/larder/store/internal/crypt"
)

// CompressPayloads compresses the uncompressed payloads of writes, if that makes them shorter. It does nothing if c is
// nil.
func CompressPayloads(c *crypt.Compressor, writes []*Write) {
	if c == nil {
		return
	}
	var todo []*Write
	var payloads [][]byte
	for _, x := range writes {
		if !x.Del && x.Dict == nil {
			todo, payloads = append(todo, x), append(payloads, x.Payload)
		}
	}
	compressed, dict := c.Compress(payloads)
	for i, x := range todo {
		if compressed[i] != nil {
			x.Compressed, x.Dict = compressed[i], dict
		}
	}
}
