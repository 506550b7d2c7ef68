package reflector

import (
	"math/rand/v2"
	"time"
)

// The back-off's terms; see doc.go.
const (
	backoffBase = 800 * time.Millisecond
	backoffCap  = 30 * time.Second
	// health is how long a watch must live until the next error is the first again.
	health = 2 * time.Minute
)

// backoff counts failures in a row. The zero value is ready.
type backoff struct {
	failures int
}

// next returns how long to wait: full jitter below an exponential ceiling, on top of
// what the server asked for (a fleet told "1 s" should not return as one).
func (b *backoff) next(retryAfter time.Duration) time.Duration {
	d := b.ceiling()
	b.failures++
	return retryAfter + rand.N(d+1)
}

// slow returns the wait of a degraded state: the cap at least half of it.
func (b *backoff) slow(retryAfter time.Duration) time.Duration {
	b.failures++
	return retryAfter + backoffCap/2 + rand.N(backoffCap/2+1)
}

func (b *backoff) ceiling() time.Duration {
	d := backoffBase
	for range b.failures {
		if d *= 2; d >= backoffCap {
			return backoffCap
		}
	}
	return d
}

func (b *backoff) reset() { b.failures = 0 }
