package informer

import (
	"time"

	"github.com/larder-dev/larder/reflector"
)

// Source says where the data that readers see comes from.
type Source string

// The sources.
const (
	// None: nothing has been stored or listed yet.
	None Source = "none"
	// FromDisk: the stored state, not confirmed by the server in this run, or out of contact with it.
	FromDisk Source = "disk"
	// Live: the watch is open and everything that came has been applied.
	Live Source = "live"
)

// Status is a snapshot of an informer.
type Status struct {
	Source Source
	// Persistent is false if the objects are in memory only, and NotPersistent says why.
	Persistent    bool
	NotPersistent string
	Synced        bool
	// ResourceVersion that the stored objects stand at.
	ResourceVersion string
	Objects         int
	// LastContact is when the server was last heard, in this run or an earlier one.
	LastContact time.Time
	// Reflector is the connection's side: resumes, relists and why.
	Reflector reflector.Status
	// Pending is what has been received but not stored yet.
	Pending int
	// Skipped counts objects that could not be keyed, encoded or indexed.
	Skipped int
	// Err is why the informer is degraded (connection, store); nil while it is healthy.
	Err error
}
