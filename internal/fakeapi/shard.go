package fakeapi

import (
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
)

var shardRange = regexp.MustCompile(
	`^\s*shardRange\(\s*(object\.metadata\.(?:uid|namespace))\s*,\s*'(0x[0-9a-f]{16})'\s*,\s*` +
		`'(0x[0-9a-f]{16}|0x10000000000000000)'\s*\)\s*$`)

// parseShardSelector accepts the syntax of kube-apiserver's strict parser. As in kube-apiserver, a syntax error is not
// a 400 but a 500.
func parseShardSelector(s string) (sharding.Selector, error) {
	var ranges []sharding.ShardRangeRequirement
	for term := range strings.SplitSeq(s, "||") {
		parts := shardRange.FindStringSubmatch(term)
		if parts == nil {
			return nil, fmt.Errorf("invalid shard selector: %q is no shardRange() with hashes of 16 digits", term)
		}
		r := sharding.ShardRangeRequirement{Key: parts[1], Start: parts[2], End: parts[3]}
		if !sharding.HexLess(r.Start, r.End) {
			return nil, fmt.Errorf("invalid shard selector: shard range start %s must be less than end %s", r.Start, r.End)
		}
		if len(ranges) > 0 && r.Key != ranges[0].Key {
			return nil, fmt.Errorf("invalid shard selector: all shard ranges must use the same field, got %q and %q",
				ranges[0].Key, r.Key)
		}
		ranges = append(ranges, r)
	}
	return sharding.NewSelector(ranges...), nil
}

func (o listOptions) inShard(obj *object) bool {
	if o.shard == nil {
		return true
	}
	ours, err := o.shard.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: obj.namespace,
		UID: obj.uid}})
	return ours && err == nil
}

// shardInfo returns the ShardInfo of a list. As in kube-apiserver 1.36, lists of custom resources and of metadata have
// none.
func (q *request) shardInfo() *metav1.ShardInfo {
	if q.options.shard == nil || q.kind.custom() || q.repr.metadata() {
		return nil
	}
	return &metav1.ShardInfo{Selector: q.options.shard.String()}
}
