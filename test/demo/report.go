package demo

import (
	"errors"
	"time"
)

// ErrClaim is wrapped by the error of Run if something that the story says does not hold.
var ErrClaim = errors.New("a claim of the demo does not hold")

// Report is what the story measured.
type Report struct {
	// Steps in the order of the story: cold start, restart, start without the API server, API server back.
	Steps []Step
}

// Step is one start, by Larder and by client-go's informer.
type Step struct {
	Name string
	// Larder, Default (client-go as it comes: WatchList) and List (client-go made to LIST). One that did not
	// get to an end, for want of a server, has Synced false.
	Larder, Default, List Measure
	// Told is what Larder's handler was told besides what was stored, and Replayed how much was.
	Created, Updated, Deleted []string
	Replayed                  int
	// Reason of the relist, if there was one.
	Reason string
	// Age of the data when it was served without the server.
	Age time.Duration
}

// Measure is what a start cost.
type Measure struct {
	Synced bool
	// Took is the time until everything was there; for the last step of Larder, since the server's first answer.
	Took time.Duration
	// Waited is how long Larder took to notice that the server is back; 0 if it did before the Cluster said so.
	Waited   time.Duration
	Requests Requests
	// Received is in bytes, on the wire.
	Received int64
	Objects  int
}
