package cluster

import (
	"context"
	"runtime"
	"time"
)

// A server that has just answered a list of everything is still collecting garbage. It is quiet when it uses less than
// a tenth of a core. The wait for that is bounded.
const (
	quietWindow = 300 * time.Millisecond
	quietShare  = 0.1
	quietAfter  = 15 * time.Second
)

// Settle waits until the server is quiet, so that a case does not pay for the one before. The embedded server is in
// this process; it is quiet after a garbage collection.
func Settle(ctx context.Context, c Cluster) {
	runtime.GC()
	deadline := time.Now().Add(quietAfter)
	last, counted := c.CPU()
	for counted && time.Now().Before(deadline) {
		select {
		case <-time.After(quietWindow):
		case <-ctx.Done():
			return
		}
		var now time.Duration
		if now, counted = c.CPU(); float64(now-last) < quietShare*float64(quietWindow) {
			return
		}
		last = now
	}
}
