package limiter

import "time"

// The terms of every back-off towards a server.
const (
	// BackoffBase is the ceiling of the first wait, which doubles with each failure in a row up to BackoffCap.
	BackoffBase = 800 * time.Millisecond
	BackoffCap  = 30 * time.Second
)

// Ceiling is the most that is waited for after so many failures in a row before the last one; the wait is random below
// it, so that a fleet does not return as one.
func Ceiling(failures int) time.Duration {
	if failures >= 6 { // by then it is the cap, whatever comes
		return BackoffCap
	}
	return min(BackoffBase<<failures, BackoffCap)
}
