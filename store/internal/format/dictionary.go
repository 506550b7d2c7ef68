package format

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

func DictionaryID(content []byte) uint64 {
	sum := sha256.Sum256(content)
	return max(1, binary.BigEndian.Uint64(sum[:])) // The id 0 means no dictionary.
}

func DictionaryKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func ParseDictionaryKey(k []byte) (id uint64, ok bool) {
	if len(k) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(k), true
}

// DictionaryRecordKey returns the key that the checksum of a dictionary covers.
func DictionaryRecordKey(id uint64) string { return fmt.Sprintf("%s/%016x", BucketDictionaries, id) }

// DictionaryHeader has the compressor zstd in place of a codec's encoding.
var DictionaryHeader = Header{Encoding: "dictionary"}
