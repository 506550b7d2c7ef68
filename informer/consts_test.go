package informer_test

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/reflector"
)

// These are limits and intervals that the informer promises.
const (
	openAPIEvery   = time.Hour        // openAPIEvery is the interval between two reads of the schema's hash
	openAPIJitter  = 10 * time.Minute // openAPIJitter is the maximum delay of the list that follows a changed schema
	auditPage      = 500              // auditPage is the number of objects in a page of an audit
	backlogObjects = 500              // backlogObjects is the number of stored objects in a page of a handler's replay
	mergeThreshold = 1024             // mergeThreshold is the number of queued calls from which on updates merge
	crashPause     = time.Second      // crashPause is the pause of a handler after a panic
	lagInterval    = 10 * time.Minute // lagInterval is the minimum time between two log lines about a slow handler
	maxWorks       = 1000             // maxWorks is the maximum number of unacknowledged keys of a durable handler
	// manyWorks bounds the average number of unfinished keys that are stored per finished key.
	manyWorks        = 64
	maxSourceChanges = 1000    // maxSourceChanges is the maximum number of undelivered Source changes of a subscriber
	largeBody        = 8 << 10 // largeBody is the mean object size from which on a list of metadata is cheaper
	// openWait is how long New waits for another informer to close the collection.
	openWait = reflector.MaxStop + 15*time.Second
)

// These are the first words of the sentences in Status.Unguarded.
const (
	whatCluster   = "another cluster on the same address"
	whatSchema    = "a changed schema of the resource"
	whatTransform = "a changed transform"
)

// acceptMetadata is the Accept header of a request for PartialObjectMetadata.
const acceptMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

func keyOf(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		panic(err)
	}
	return key
}
