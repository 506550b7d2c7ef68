package field

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestChurn covers opentelemetry-collector-contrib#47337 and kubernetes#102874: memory grows with each object ever
// created. The heap must not grow when pods are created and deleted.
func TestChurn(t *testing.T) {
	api := startFake(t)
	w := NewWorld(t, api)
	w.config = w.direct()
	r := w.start(nil)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var after []uint64
	for round := range 4 {
		w.must(inParallel(2000, func(n int) error {
			name := fmt.Sprintf("x%d-%d", round, n)
			return w.created(pod("a", name, fmt.Sprintf("10.%d.%d", round, n), fmt.Sprint(round, n)))
		}))
		w.must(inParallel(2000, func(n int) error { return w.deleted("a", fmt.Sprintf("x%d-%d", round, n)) }))
		w.create(pod("b", fmt.Sprintf("last%d", round), "1", ""))
		r.saw(fmt.Sprintf("add b/last%d=1", round))
		w.must(r.File().Flush(w.Context()))
		api.Compact() // the heap includes the history of the fake server
		r.calls.forget()
		after = append(after, heap())
	}
	if after[3] > after[1]+after[1]/2 {
		w.Errorf("heap after each round: %d", after)
	}
	w.Logf("heap after each round: %d", after)
}

func inParallel(n int, do func(n int) error) error {
	var next atomic.Int64
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for worker := range errs {
		wg.Go(func() {
			for {
				number := int(next.Add(1)) - 1
				if number >= n || errs[worker] != nil {
					return
				}
				errs[worker] = do(number)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
