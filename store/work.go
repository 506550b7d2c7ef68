package store

import "github.com/larder-dev/larder/store/internal/boltfile"

// Why the file's one place for a writer is taken.
var (
	rebuilding = boltfile.Work{What: "a rebuild of the file", Long: true}
	compacting = boltfile.Work{What: "a compaction of the file", Long: true}
	forgetting = boltfile.Work{What: "the removal of a durable handler", Frees: true}
	trimming   = boltfile.Work{What: "the removal of tombstones", Frees: true}
)
