package pace

import (
	"math/rand/v2"
	"time"

	"github.com/larder-dev/larder/internal/limiter"
)

// Health is how long a watch must live to reset the back-off. A list within this time after another list waits.
const Health = 2 * time.Minute

type Backoff struct {
	failures int
}

// Next returns how long to wait: full jitter below an exponential ceiling, on top of the server's Retry-After. The
// jitter keeps a fleet with the same Retry-After from returning together.
func (b *Backoff) Next(retryAfter time.Duration) time.Duration {
	d := limiter.Ceiling(b.failures)
	b.failures++
	return retryAfter + rand.N(d+1)
}

func (b *Backoff) Reset() { b.failures = 0 }
