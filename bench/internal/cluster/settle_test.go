package cluster_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/larder-dev/larder/bench/internal/cluster"
)

// uncounted is a server in this process.
type uncounted struct{ cluster.Cluster }

func (uncounted) CPU() (time.Duration, bool) { return 0, false }

// A case on the embedded server must not share the processor with the garbage of the one before.
func TestSettleCollectsGarbageOfTheEmbeddedServer(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cluster.Settle(t.Context(), uncounted{})
	if runtime.ReadMemStats(&after); after.NumForcedGC == before.NumForcedGC {
		t.Error("the garbage was not collected")
	}
}
