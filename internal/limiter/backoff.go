package limiter

import "time"

// The parameters of the backoff with which clients connect to a server again.
const (
	// BackoffBase is the ceiling of the first wait. The ceiling doubles with each consecutive failure, up to
	// BackoffCap.
	BackoffBase = 800 * time.Millisecond
	BackoffCap  = 30 * time.Second
)

// Ceiling returns the maximum wait after a failure that follows this many consecutive failures. The actual wait is
// random below it, so that a fleet of clients does not return at once.
func Ceiling(failures int) time.Duration {
	if failures >= 6 { // after six failures the ceiling is BackoffCap
		return BackoffCap
	}
	return min(BackoffBase<<failures, BackoffCap)
}
