package format

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// DictionaryID returns the id of a dictionary that is not sealed: a hash of its content, and never 0.
func DictionaryID(content []byte) uint64 {
	sum := sha256.Sum256(content)
	return max(1, binary.BigEndian.Uint64(sum[:])) // the id 0 means no dictionary
}

// DictionaryKey returns the key of a dictionary in its bucket.
func DictionaryKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// ParseDictionaryKey is the reverse of DictionaryKey.
func ParseDictionaryKey(k []byte) (id uint64, ok bool) {
	if len(k) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(k), true
}

// DictionaryRecordKey returns the key that the checksum of a dictionary covers.
func DictionaryRecordKey(id uint64) string { return fmt.Sprintf("%s/%016x", BucketDictionaries, id) }

// DictionaryHeader is the header of a dictionary's record. Its encoding names the compressor, which is zstd.
var DictionaryHeader = Header{Encoding: "dictionary"}
