package format

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// DictionaryID is the id of a dictionary that is stored in plain text: a hash of its content, and never 0.
func DictionaryID(content []byte) uint64 {
	sum := sha256.Sum256(content)
	return max(1, binary.BigEndian.Uint64(sum[:])) // 0 is for none
}

// DictionaryKey is the key of a dictionary in its bucket.
func DictionaryKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// ParseDictionaryKey is the reverse of DictionaryKey.
func ParseDictionaryKey(k []byte) (id uint64, ok bool) {
	if len(k) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(k), true
}

// DictionaryPlace is the key that the checksum of a dictionary covers.
func DictionaryPlace(id uint64) string { return fmt.Sprintf("%s/%016x", BucketDictionaries, id) }

// DictionaryHeader is that of the record of a dictionary. Its encoding names the compressor: this one is zstd's.
var DictionaryHeader = Header{Encoding: "dictionary"}
