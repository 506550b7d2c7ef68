package cluster

import (
	"context"
	"time"
)

// After a list of all objects, an API server's runtime releases memory for a while. The server counts as quiet when it
// uses less than a tenth of a core. The wait is bounded.
const (
	quietWindow = 300 * time.Millisecond
	quietShare  = 0.1
	quietAfter  = 15 * time.Second
)

// Quiesce makes the API server collect garbage and waits until its processor use is low. Otherwise a measurement would
// include the garbage of the previous measurement: a garbage collection with 100,000 pods takes seconds, and the Go
// runtime starts one every two minutes.
func Quiesce(ctx context.Context, c Cluster) error {
	if err := c.Collect(ctx); err != nil {
		return err
	}
	deadline := time.Now().Add(quietAfter)
	last, counted := c.CPU()
	for counted && time.Now().Before(deadline) {
		select {
		case <-time.After(quietWindow):
		case <-ctx.Done():
			return ctx.Err()
		}
		var now time.Duration
		if now, counted = c.CPU(); float64(now-last) < quietShare*float64(quietWindow) {
			return nil
		}
		last = now
	}
	return nil
}
