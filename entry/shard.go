package entry

import (
	"fmt"
	"math/bits"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/sharding"
)

// Fields that a shard selector may hash, and the range of hashes, from firstHash up to but not including hashesEnd.
const (
	shardByUID       = "object.metadata.uid"
	shardByNamespace = "object.metadata.namespace"
	firstHash        = "0x0000000000000000"
	hashesEnd        = "0x10000000000000000"
)

// ShardSelector returns a value for Identity.ShardSelector that selects one shard of a resource. of is the number of
// shards, and index is from 0 to of-1. The shards have about the same size, because they are equal ranges of the UIDs'
// hashes. If of is 1 the selector is empty, which selects everything. An object stays in its shard as long as it
// exists. A deleted and newly created object has a new UID and may be in another shard.
//
// A selector by namespace (object.metadata.namespace) can be written by hand. Its shards may differ much in size, even
// if namespaces do not. Names that differ only in their last characters have hashes (64-bit FNV-1a) that start with
// equal digits, so web-1 to web-9 are in one shard.
func ShardSelector(index, of int) (string, error) {
	if of < 1 || index < 0 || index >= of {
		return "", fmt.Errorf("shard %d of %d: the index must be from 0 to one less than the number of shards", index, of)
	}
	if of == 1 {
		return "", nil
	}
	r := sharding.ShardRangeRequirement{Key: shardByUID, Start: shardStart(index, of), End: hashesEnd}
	if index+1 < of {
		r.End = shardStart(index+1, of)
	}
	return sharding.NewSelector(r).String(), nil
}

// shardStart returns the first hash of a shard: index × 2^64 / of, rounded down. It needs index < of and of > 1.
func shardStart(index, of int) string {
	start, _ := bits.Div64(uint64(index), 0, uint64(of))
	return fmt.Sprintf("0x%016x", start)
}

// Shards returns the parsed ShardSelector. The result selects everything if ShardSelector is empty or invalid.
func (id Identity) Shards() sharding.Selector {
	s, err := parseShards(id.ShardSelector)
	if err != nil {
		return sharding.Everything()
	}
	return s
}

// parseShards parses a selector by the API server's rules: ranges of 16 digits, joined by "||" (KEP-5866). It keeps the
// order of the ranges, so two spellings of one selection are two collections.
func parseShards(s string) (sharding.Selector, error) {
	if strings.TrimSpace(s) == "" {
		return sharding.Everything(), nil
	}
	var ranges []sharding.ShardRangeRequirement
	for term := range strings.SplitSeq(s, "||") {
		r, err := parseShardRange(strings.TrimSpace(term))
		if err != nil {
			return nil, err
		}
		if len(ranges) > 0 && r.Key != ranges[0].Key {
			return nil, fmt.Errorf("its ranges are of %s and %s, and must be of one field", ranges[0].Key, r.Key)
		}
		ranges = append(ranges, r)
	}
	return sharding.NewSelector(ranges...), nil
}

var shardRange = regexp.MustCompile(
	`^shardRange\(\s*([a-z.]+)\s*,\s*['"](0x[0-9a-f]{16})['"]\s*,\s*['"](0x[0-9a-f]{16,17})['"]\s*\)$`)

func parseShardRange(term string) (r sharding.ShardRangeRequirement, err error) {
	parts := shardRange.FindStringSubmatch(term)
	if parts == nil {
		return r, fmt.Errorf("%q is not of the form shardRange(%s, '%s', '%s')", term, shardByUID, firstHash, hashesEnd)
	}
	r = sharding.ShardRangeRequirement{Key: parts[1], Start: parts[2], End: parts[3]}
	switch {
	case r.Key != shardByUID && r.Key != shardByNamespace:
		return r, fmt.Errorf("%q is of the field %s, and must be of %s or %s", term, r.Key, shardByUID, shardByNamespace)
	case sharding.HexLess(hashesEnd, r.End):
		return r, fmt.Errorf("%q ends above %s", term, hashesEnd)
	case !sharding.HexLess(r.Start, r.End):
		return r, fmt.Errorf("%q selects nothing: its end must be above its start", term)
	}
	return r, nil
}
