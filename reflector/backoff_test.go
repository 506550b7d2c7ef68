package reflector

import (
	"testing"
	"time"

	"github.com/larder-dev/larder/internal/uplink"
)

func TestBackoffCeilings(t *testing.T) {
	want := []time.Duration{800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond,
		6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 30 * time.Second, 30 * time.Second}
	var b backoff
	for round := range 2 {
		for i, w := range want {
			if got := uplink.Ceiling(b.failures); got != w {
				t.Errorf("round %d: ceiling %d is %s, want %s", round, i, got, w)
			}
			b.next(0)
		}
		b.reset()
	}
}

func TestBackoffJitter(t *testing.T) {
	lowest, highest := time.Hour, time.Duration(0)
	for range 2000 {
		b := backoff{failures: 3}
		d := b.next(time.Second)
		lowest, highest = min(lowest, d), max(highest, d)
	}
	// Full jitter: anything from nothing to the ceiling, after what the server asked for.
	if lowest < time.Second || lowest > 2*time.Second || highest > 7400*time.Millisecond || highest < 6*time.Second {
		t.Errorf("waits from %s to %s", lowest, highest)
	}
}
