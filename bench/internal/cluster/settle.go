package cluster

import (
	"context"
	"time"
)

// A server that has just answered a list of everything is still giving memory back. It is quiet when it uses less than
// a tenth of a core. The wait for that is bounded.
const (
	quietWindow = 300 * time.Millisecond
	quietShare  = 0.1
	quietAfter  = 15 * time.Second
)

// Settle has the server collect its garbage and waits until it is quiet, so that a case does not pay for the one
// before: one collection of a server with 100,000 pods takes seconds, and the Go runtime begins one every two minutes.
func Settle(ctx context.Context, c Cluster) error {
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
