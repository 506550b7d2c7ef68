package format

// formatVersion is the version of the format.
const Version = 1

var (
	BucketLarder    = []byte("larder")
	BucketDocuments = []byte("documents") // name → record of what a program keeps beside collections; see document.go
	BucketDropped   = []byte("dropped")   // number → what is left of a collection that was dropped; see drop.go

	// In bucketLarder, beside one bucket per collection, named by Identity.ID.
	KeyFormat  = []byte("format")  // formatVersion, big endian uint64, and its CRC-32C; the same in every format
	KeyCreated = []byte("created") // RFC 3339
	KeyFileID  = []byte("file-id") // random, hex
	KeyClean   = []byte("clean")   // present while the file was closed cleanly
	KeyKeys    = []byte("keys")    // the data keys, wrapped, once something has been sealed; see keyring.go
	KeyTimes   = []byte("times")   // the clocks when it was last noted which collections are used; see steady.go

	// In a collection's bucket.
	KeyInfo       = []byte("info") // msgpack of infoRecord
	BucketObjects = []byte("objects")
	BucketIndex   = []byte("index")
	BucketStaging = []byte("staging") // a relist too large for memory; dropped at open

	BucketDictionaries = []byte("dict") // what compressed records need

	// While something consumes the changelog; see feed.go.
	BucketSeq        = []byte("seq")
	BucketTombstones = []byte("tombstones")
	BucketHandlers   = []byte("handlers")
)

// The files beside the store's own, whose path they begin with.
const (
	SuffixOpening = ".opening"  // there while a process opens the store; see openMark
	SuffixNew     = ".new-"     // a store that is being made; a crash leaves it, the next open removes it
	SuffixDamaged = ".damaged-" // a store that was moved aside, and when (UTC)
)
