package informer_test

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/reflector"
)

// What an informer promises, in figures.
const (
	openAPIEvery     = time.Hour        // how often the hash of the schema is read
	openAPIJitter    = 10 * time.Minute // and how much later at most
	auditPage        = 500              // objects in a request of an audit
	backlogObjects   = 500              // that are read for a handler at a time
	mergeThreshold   = 1024             // calls that wait before updates of an object are told as one
	crashPause       = time.Second      // after a handler has panicked
	lagInterval      = 10 * time.Minute // between two reports that a handler is behind
	maxWorks         = 1000             // keys that a durable handler has not acknowledged
	manyWorks        = 64               // that a durable handler may note for each change, on average
	maxSourceChanges = 1000             // that a subscriber may be behind
	largeBody        = 8 << 10          // from which on a list by metadata pays
	// openWait is how long New waits for another informer to give its collection back.
	openWait = reflector.MaxStop + 15*time.Second
)

// Beginnings of what Status.Unguarded says.
const (
	whatCluster   = "another cluster on the same address"
	whatSchema    = "a changed schema of the resource"
	whatTransform = "a changed transform"
)

// acceptMetadata is the header of a list by metadata.
const acceptMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// keyOf is the key of an object.
func keyOf(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		panic(err)
	}
	return key
}
