package format

// Version is the version of the file format that this program reads and writes.
const Version = 1

var (
	BucketLarder    = []byte("larder")
	BucketDocuments = []byte("documents") // name → record of a document that a program keeps beside collections
	BucketDropped   = []byte("dropped")   // transaction id → buckets of dropped collections that are not removed yet
)

// Keys in BucketLarder, which also has one bucket for each collection, named by Identity.ID.
var (
	KeyFormat  = []byte("format")  // Version as big-endian uint64, and its CRC-32C; the same in every format
	KeyCreated = []byte("created") // time when the file was made, in RFC 3339
	KeyFileID  = []byte("file-id") // random id of the file, in hex
	KeyClean   = []byte("clean")   // present if the file was closed cleanly
	KeyKeys    = []byte("keys")    // the wrapped data keys, once something has been sealed
	KeyTimes   = []byte("times")   // the wall clock and the steady clock at the last commit; see boltfile.Times
)

var (
	KeyInfo            = []byte("info") // record with the state of the collection: Info, as msgpack
	BucketObjects      = []byte("objects")
	BucketIndex        = []byte("index")
	BucketDictionaries = []byte("dict") // dictionaries of compressed records
)

// Buckets in the bucket of a collection with a changelog.
var (
	BucketSeq        = []byte("seq")
	BucketTombstones = []byte("tombstones")
	BucketCursors    = []byte("handlers")
	BucketTimes      = []byte("times") // sequence number → Mark, the time of its commit, if changes are kept for readers
)

// Suffixes of the files beside the store. Their names begin with the store's path.
const (
	SuffixOpening = ".opening"  // exists while a process opens the store; see boltfile.TakeMark
	SuffixNew     = ".new-"     // a store that is being made; after a crash, the next open removes it
	SuffixDamaged = ".damaged-" // a damaged store that was moved aside, followed by the time (UTC)
)
