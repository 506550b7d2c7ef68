package limiter

import "time"

// The terms of every back-off towards a server.
const (
	// BackoffBase is the ceiling of the first wait, which doubles with each failure in a row up to BackoffCap.
	BackoffBase = 800 * time.Millisecond
	BackoffCap  = 30 * time.Second
)

// Ceiling returns the maximum wait after a failure that follows that many others in a row. The wait is random below it,
// so that a fleet does not return at once.
func Ceiling(failures int) time.Duration {
	if failures >= 6 { // the cap is reached
		return BackoffCap
	}
	return min(BackoffBase<<failures, BackoffCap)
}
