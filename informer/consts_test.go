package informer_test

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/reflector"
)

// Limits and intervals that the informer promises.
const (
	openAPIEvery   = time.Hour        // interval between two reads of the schema's hash
	openAPIJitter  = 10 * time.Minute // maximum delay of the list that follows a change of the schema's hash
	auditPage      = 500              // number of objects in a page of an audit
	backlogObjects = 500              // number of stored objects that a handler's queue reads at a time
	mergeThreshold = 1024             // queued calls of a handler from which on updates of one object merge
	crashPause     = time.Second      // pause of a handler after its call has panicked
	lagInterval    = 10 * time.Minute // minimum time between two log lines about a handler that does not keep up
	maxWorks       = 1000             // maximum number of unacknowledged keys of a durable handler
	// maximum number of unfinished keys that are stored per finished key, on average
	manyWorks        = 64
	maxSourceChanges = 1000    // maximum number of undelivered Source changes of a subscriber
	largeBody        = 8 << 10 // mean object size in bytes from which on a list of metadata is cheaper
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

// keyOf returns the key of an object.
func keyOf(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		panic(err)
	}
	return key
}
