package limiter

import "time"

const (
	// BackoffBase is the maximum wait before the first new attempt to connect. The maximum doubles with each consecutive
	// failure, up to BackoffCap.
	BackoffBase = 800 * time.Millisecond
	BackoffCap  = 30 * time.Second
)

// Ceiling returns the maximum wait after a failure that follows the given number of consecutive failures. The actual
// wait is a random part of the maximum, so that the clients of many processes do not connect at the same time.
func Ceiling(failures int) time.Duration {
	if failures >= 6 { // 0.8 s doubled six times exceeds BackoffCap
		return BackoffCap
	}
	return min(BackoffBase<<failures, BackoffCap)
}
