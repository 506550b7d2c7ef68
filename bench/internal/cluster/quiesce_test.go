package cluster_test

import (
	"runtime"
	"testing"

	"github.com/larder-dev/larder/bench/internal/cluster"
)

// TestQuiesceCollectsGarbage checks that Quiesce runs a garbage collection in the embedded server, so that the
// collection does not take processor time from the next case.
func TestQuiesceCollectsGarbage(t *testing.T) {
	c, err := cluster.StartEmbedded(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := cluster.Quiesce(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if runtime.ReadMemStats(&after); after.NumForcedGC == before.NumForcedGC {
		t.Error("the garbage was not collected")
	}
}
