package entry_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/entry"
)

// A controller with eight replicas gives each replica one shard of the pods.
func ExampleShardSelector() {
	shards, err := entry.ShardSelector(2, 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), ShardSelector: shards}
	fmt.Println(id.ShardSelector)
	// Output: shardRange(object.metadata.uid, '0x4000000000000000', '0x6000000000000000')
}
