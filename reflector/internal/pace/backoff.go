package pace

import (
	"math/rand/v2"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
)

// Health is how long a watch must live to reset the back-off.
const Health = 2 * time.Minute

// Backoff counts failures in a row. The zero value is ready.
type Backoff struct {
	failures int
}

// Next returns how long to wait: full jitter below an exponential ceiling, on top of
// what the server asked for (a fleet told "1 s" should not return as one).
func (b *Backoff) Next(retryAfter time.Duration) time.Duration {
	d := limiter.Ceiling(b.failures)
	b.failures++
	return retryAfter + rand.N(d+1)
}

// Reset forgets the failures: the next wait is short again.
func (b *Backoff) Reset() { b.failures = 0 }
