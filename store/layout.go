package store

// formatVersion is the version of the format.
const formatVersion = 1

var (
	bucketLarder    = []byte("larder")
	bucketDocuments = []byte("documents") // name → record of what a program keeps beside collections; see document.go
	bucketDropped   = []byte("dropped")   // number → what is left of a collection that was dropped; see drop.go

	// In bucketLarder, beside one bucket per collection, named by Identity.ID.
	keyFormat  = []byte("format")  // formatVersion, big endian uint64, and its CRC-32C; the same in every format
	keyCreated = []byte("created") // RFC 3339
	keyFileID  = []byte("file-id") // random, hex
	keyClean   = []byte("clean")   // present while the file was closed cleanly
	keyKeys    = []byte("keys")    // the data keys, wrapped, once something has been sealed; see keyring.go
	keyTimes   = []byte("times")   // the clocks when it was last noted which collections are used; see steady.go

	// In a collection's bucket.
	keyInfo       = []byte("info") // msgpack of infoRecord
	bucketObjects = []byte("objects")
	bucketIndex   = []byte("index")
	bucketStaging = []byte("staging") // a relist too large for memory; dropped at open

	bucketDictionaries = []byte("dict") // what compressed records need

	// While something consumes the changelog; see feed.go.
	bucketSeq        = []byte("seq")
	bucketTombstones = []byte("tombstones")
	bucketHandlers   = []byte("handlers")
)

// The files beside the store's own, whose path they begin with.
const (
	suffixOpening = ".opening"  // there while a process opens the store; see openMark
	suffixNew     = ".new-"     // a store that is being made; a crash leaves it, the next open removes it
	suffixDamaged = ".damaged-" // a store that was moved aside, and when (UTC)
)
