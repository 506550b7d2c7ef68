package demo

import (
	"errors"
	"time"
)

// ErrClaim is wrapped by Run's error if a claim of the demo is false.
var ErrClaim = errors.New("a claim of the demo does not hold")

// Report holds the figures of a demo.
type Report struct {
	Steps []Step
}

// Step is one start of the demo, measured with Larder and with client-go's informer.
type Step struct {
	Name string
	// Larder, Default (client-go with WatchList) and List (client-go with LIST) are the figures of the three informers.
	// Synced is false for an informer that could not sync because there was no server.
	Larder, Default, List Measure
	// Created, Updated and Deleted are the keys in the events of Larder's handler. Replayed is the number of stored
	// objects that the handler received.
	Created, Updated, Deleted []string
	Replayed                  int
	Reason                    string
	Age                       time.Duration
}

// Measure holds the figures of one start of one informer.
type Measure struct {
	Synced bool
	// Took is the time from the start until the sync was complete. In the last step, it begins at the server's first
	// answer to Larder.
	Took time.Duration
	// Waited is the time until Larder noticed that the server was back; 0 if Larder noticed it before Cluster.Start
	// returned.
	Waited   time.Duration
	Requests Requests
	Received int64
	Objects  int
}
