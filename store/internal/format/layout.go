package format

// Version is the version of the format.
const Version = 1

// The buckets of a file.
var (
	BucketLarder    = []byte("larder")
	BucketDocuments = []byte("documents") // name → record of what a program keeps beside collections
	BucketDropped   = []byte("dropped")   // number → what is left of a collection that was dropped
)

// The keys in BucketLarder, beside one bucket for each collection, named by Identity.ID.
var (
	KeyFormat  = []byte("format")  // Version, big endian uint64, and its CRC-32C; the same in every format
	KeyCreated = []byte("created") // RFC 3339
	KeyFileID  = []byte("file-id") // random, hex
	KeyClean   = []byte("clean")   // present while the file was closed cleanly
	KeyKeys    = []byte("keys")    // the data keys, wrapped, once something has been sealed
	KeyTimes   = []byte("times")   // the clocks when it was last noted which collections are used
)

// What a collection's bucket holds.
var (
	KeyInfo            = []byte("info") // msgpack of Info
	BucketObjects      = []byte("objects")
	BucketIndex        = []byte("index")
	BucketDictionaries = []byte("dict") // what compressed records need
)

// What a collection's bucket holds while something consumes the changelog.
var (
	BucketSeq        = []byte("seq")
	BucketTombstones = []byte("tombstones")
	BucketCursors    = []byte("handlers")
	BucketTimes      = []byte("times") // number → when it was given, if changes are kept for readers
)

// The files beside the store's own, whose path they begin with.
const (
	SuffixOpening = ".opening"  // there while a process opens the store; see boltfile.TakeMark
	SuffixNew     = ".new-"     // a store that is being made; a crash leaves it, the next open removes it
	SuffixDamaged = ".damaged-" // a store that was moved aside, and when (UTC)
)
