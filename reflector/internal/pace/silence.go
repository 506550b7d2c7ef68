package pace

import "time"

const (
	// silenceLimit is how long a watch may be silent until we ask whether it is alive: bookmarks come once a minute.
	silenceLimit = 150 * time.Second
	// DrainTimeout is the timeoutSeconds of a watch that drains: the server sends a bookmark about two seconds
	// before the time-out, so at once.
	DrainTimeout = 3 * time.Second
	// drainGrace is added to drainTimeout for a server that does not heed it.
	drainGrace = 30 * time.Second
	// MaxSilence bounds how long it may be silent at most.
	MaxSilence = 10 * time.Minute
)

// Silence is how long watches may be silent. A large event on a thin link looks like a dead connection: nothing comes
// until all of it has. A watch that is closed for that is sent the same event again from its first byte. So the next
// from the same place may be silent for longer.
type Silence struct {
	// at is where the last watch stood that was closed for it, and doublings how much longer the next from there may be.
	at        string
	doublings int
}

// Limit is how long a watch that stands at rv may be silent; draining: one with drainTimeout.
func (q *Silence) Limit(draining bool, rv string) time.Duration {
	switch {
	case q.doublings > 0 && rv == q.at:
		return min(silenceLimit<<q.doublings, MaxSilence)
	case draining:
		return DrainTimeout + drainGrace
	}
	return silenceLimit
}

// Closed notes that a watch at rv was closed for its silence.
func (q *Silence) Closed(rv string) {
	if rv != q.at {
		q.at, q.doublings = rv, 0
	}
	if silenceLimit<<q.doublings < MaxSilence {
		q.doublings++
	}
}
