package informer_test

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/reflector"
)

// Limits and intervals that the informer promises.
const (
	openAPIEvery     = time.Hour        // interval between reads of the schema's hash
	openAPIJitter    = 10 * time.Minute // maximum delay of a list for a changed hash
	auditPage        = 500              // objects in an audit's page
	backlogObjects   = 500              // objects in a page of a backlog
	mergeThreshold   = 1024             // pending calls from which on updates of an object merge
	crashPause       = time.Second      // pause after a handler's panic
	lagInterval      = 10 * time.Minute // minimum time between log lines about a handler that is behind
	maxWorks         = 1000             // maximum unacknowledged keys of a durable handler
	manyWorks        = 64               // work items per change that a durable handler may note, on average
	maxSourceChanges = 1000             // changes that a subscriber may be behind
	largeBody        = 8 << 10          // mean size from which on a list by metadata pays off
	// openWait is how long New waits for another informer to close the collection.
	openWait = reflector.MaxStop + 15*time.Second
)

// Prefixes of the sentences in Status.Unguarded.
const (
	whatCluster   = "another cluster on the same address"
	whatSchema    = "a changed schema of the resource"
	whatTransform = "a changed transform"
)

// acceptMetadata is the Accept header of a metadata request.
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
