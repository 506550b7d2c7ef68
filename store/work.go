package store

import "github.com/larder-dev/larder/store/internal/boltfile"

// Work that holds the file's writer lock (boltfile.File.TakeWriter) for a long time, or frees pages.
var (
	rebuilding = boltfile.Work{What: "a rebuild of the file", Long: true}
	compacting = boltfile.Work{What: "a compaction of the file", Long: true}
	forgetting = boltfile.Work{What: "the removal of a durable handler", Frees: true}
	trimming   = boltfile.Work{What: "the removal of tombstones", Frees: true}
)
