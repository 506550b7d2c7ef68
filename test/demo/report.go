package demo

import (
	"errors"
	"time"
)

// ErrClaim is wrapped by Run's error if a claim of the demo is false.
var ErrClaim = errors.New("a claim of the demo does not hold")

// Report holds the figures of a demo.
type Report struct {
	// Steps are in order: cold start, restart, start without the API server, API server back.
	Steps []Step
}

// Step is one start, measured with Larder and with client-go's informer.
type Step struct {
	Name string
	// Larder, Default (client-go's WatchList) and List (client-go with LIST) are the figures of each informer. Synced is
	// false for an informer that had no server to sync from.
	Larder, Default, List Measure
	// Created, Updated and Deleted are the keys in the events of Larder's handler. Replayed counts the stored objects that
	// it received.
	Created, Updated, Deleted []string
	Replayed                  int
	// Reason is the reason of the relist, or "".
	Reason string
	// Age is the age of the data that was served without the server.
	Age time.Duration
}

// Measure holds the figures of one start.
type Measure struct {
	Synced bool
	// Took is the time until the sync was complete. Larder's last step begins at the server's first answer.
	Took time.Duration
	// Waited is the time until Larder noticed that the server was back; 0 if that was before Cluster.Start returned.
	Waited   time.Duration
	Requests Requests
	// Received counts bytes on the wire.
	Received int64
	Objects  int
}
