// Package parallel distributes work over all cores.
package base

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// worth is the amount of work for which a goroutine is worth its cost, in bytes of payload to decode: dozens of small
// objects, or a large one.
const worth = 256 << 10

// Parallel calls fn with each number below n, in any order, on up to GOMAXPROCS goroutines. It returns when all calls
// have returned. cost estimates the work of all calls, in bytes of payload to decode. A small amount of work is done on
// the caller's goroutine. fn must not panic.
func Parallel(n, cost int, fn func(i int)) {
	workers := min(n, cost/worth, runtime.GOMAXPROCS(0))
	if workers <= 1 {
		for i := range n {
			fn(i)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			fn(i)
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
