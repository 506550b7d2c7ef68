package pace

import "time"

const (
	// silenceLimit is how long a watch may deliver nothing until a probe requests the server's resourceVersion. Servers
	// send a bookmark once a minute.
	silenceLimit = 150 * time.Second
	// DrainTimeout is the timeoutSeconds of a watch that must receive a bookmark soon. The server sends the bookmark
	// about two seconds before the time-out.
	DrainTimeout = 3 * time.Second
	// drainGrace is the time beyond DrainTimeout that a server may ignore the time-out before its watch is silent.
	drainGrace = 30 * time.Second
	MaxSilence = 10 * time.Minute
)

// Silence determines how long a watch may deliver nothing before it counts as dead. A large event on a slow link looks
// like a dead connection, since an event arrives only as a whole. If the watch is closed, the server sends the event to
// the next watch from its first byte. So the next watch from the same resourceVersion may be silent for longer.
type Silence struct {
	// at is the resourceVersion of the last watch that was closed because it delivered nothing. doublings is how often
	// the permitted silence of a watch from that resourceVersion is doubled.
	at        string
	doublings int
}

func (q *Silence) Limit(draining bool, rv string) time.Duration {
	switch {
	case q.doublings > 0 && rv == q.at:
		return min(silenceLimit<<q.doublings, MaxSilence)
	case draining:
		return DrainTimeout + drainGrace
	}
	return silenceLimit
}

// Closed lets the next watch from rv be silent for longer, since the last one was closed for its silence.
func (q *Silence) Closed(rv string) {
	if rv != q.at {
		q.at, q.doublings = rv, 0
	}
	if silenceLimit<<q.doublings < MaxSilence {
		q.doublings++
	}
}
