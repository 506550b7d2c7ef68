package reflector

import (
	"math/rand/v2"
	"time"

	"github.com/larder-dev/larder/internal/uplink"
)

// health is how long a watch must live until the next error is the first again.
const health = 2 * time.Minute

// backoff counts failures in a row. The zero value is ready.
type backoff struct {
	failures int
}

// next returns how long to wait: full jitter below an exponential ceiling, on top of
// what the server asked for (a fleet told "1 s" should not return as one).
func (b *backoff) next(retryAfter time.Duration) time.Duration {
	d := uplink.Ceiling(b.failures)
	b.failures++
	return retryAfter + rand.N(d+1)
}

func (b *backoff) reset() { b.failures = 0 }
