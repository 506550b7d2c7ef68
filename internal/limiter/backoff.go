package limiter

import "time"

// The parameters of the backoff with which clients connect to a server again.
const (
	// BackoffBase is the maximum of the first wait. The maximum doubles with each consecutive failure, up to BackoffCap.
	BackoffBase = 800 * time.Millisecond
	BackoffCap  = 30 * time.Second
)

// Ceiling returns the maximum wait after a failure that follows the given number of consecutive failures. The actual
// wait is a random part of it, so that the clients of many processes do not connect again at once.
func Ceiling(failures int) time.Duration {
	if failures >= 6 { // after six failures the ceiling is BackoffCap
		return BackoffCap
	}
	return min(BackoffBase<<failures, BackoffCap)
}
