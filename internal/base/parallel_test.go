package base

import (
	"runtime"
	"sync/atomic"
	"testing"
)

func TestParallel(t *testing.T) {
	for name, tt := range map[string]struct{ n, cost int }{
		"None": {0, 0}, "One": {1, 1 << 30}, "Little": {500, 1}, "Much": {500, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			calls := make([]atomic.Int32, tt.n)
			Parallel(tt.n, tt.cost, func(i int) { calls[i].Add(1) })
			for i := range calls {
				if n := calls[i].Load(); n != 1 {
					t.Errorf("%d calls with %d", n, i)
				}
			}
		})
	}
}

func TestParallelShares(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	both := make(chan struct{})
	var in atomic.Int32
	Parallel(2, 2*worth, func(int) {
		if in.Add(1) == 2 {
			close(both)
		}
		<-both
	})
	var at, most atomic.Int32
	Parallel(100, worth, func(int) {
		most.Store(max(most.Load(), at.Add(1)))
		at.Add(-1)
	})
	if most.Load() != 1 {
		t.Errorf("%d calls at a time for little work", most.Load())
	}
}
