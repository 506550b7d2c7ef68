package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// hotKeys is the number of frequently read objects. readers is the number of goroutines that read in parallel.
const hotKeys, readers = 1000, 8

func runReads(ctx context.Context, b *Bench) (Result, error) {
	return b.run(ctx, nil, func(r *subject.Running) (Result, error) {
		if _, err := r.AwaitSync(ctx); err != nil {
			return nil, err
		}
		indexer := r.Informer.GetIndexer()
		hot, all := keysOf(b)
		heap, err := steadyHeap(ctx)
		if err != nil {
			return nil, err
		}
		get := func(keys []string) func(*rand.Rand) error {
			return func(random *rand.Rand) error { return getOne(indexer, keys[random.IntN(len(keys))]) }
		}
		byIndex := func(random *rand.Rand) error {
			_, err := indexer.ByIndex(subject.NamespaceIndex, load.Namespace(random.IntN(b.Case.N)))
			return err
		}
		cold, coldErr := rate(ctx, b, 1, get(all))
		hot1, hot1Err := rate(ctx, b, 1, get(hot))
		hot8, hot8Err := rate(ctx, b, readers, get(hot))
		indexed, indexErr := rate(ctx, b, 1, byIndex)
		return Result{"heap": heap, "hot_1": hot1, "hot_8": hot8, "by_index": indexed, "cold": 1e6 / cold},
			errors.Join(coldErr, hot1Err, hot8Err, indexErr, b.complete(r))
	})
}

// keysOf returns two lists of keys: the frequently read objects, evenly spread over all keys, and all objects.
func keysOf(b *Bench) (hot, all []string) {
	for i := range b.Case.N {
		all = append(all, b.Kind.Key(i))
	}
	for i := range min(hotKeys, b.Case.N) {
		hot = append(hot, all[i*len(all)/min(hotKeys, b.Case.N)])
	}
	return hot, all
}

func getOne(indexer cache.Indexer, key string) error {
	_, found, err := indexer.GetByKey(key)
	if err == nil && !found {
		err = fmt.Errorf("%s is not there", key)
	}
	return err
}

// A heap counts as steady when it changes by less than the fraction steadyPart during the time steadyAfter.
const (
	steadyPart  = 0.01
	steadyAfter = 100 * time.Millisecond
)

// steadyHeap returns the live heap once the heap no longer changes. Before that, tables in memory may fill in the
// background.
func steadyHeap(ctx context.Context) (float64, error) {
	last := liveHeap()
	for {
		select {
		case <-time.After(steadyAfter):
		case <-ctx.Done():
			return 0, fmt.Errorf("the heap did not become steady: %w", ctx.Err())
		}
		now := liveHeap()
		if math.Abs(now-last) < steadyPart*last {
			return now, nil
		}
		last = now
	}
}

// liveHeap returns the live heap after two garbage collections: the second frees objects with finalizers.
func liveHeap() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// rate returns how many times a second the goroutines together can call do. A full run measures for a second, after a
// warm-up of a tenth of a second.
func rate(ctx context.Context, b *Bench, goroutines int, do func(*rand.Rand) error) (perSecond float64, err error) {
	d := time.Duration(b.Case.Effort * float64(time.Second))
	if _, err := repeat(ctx, d/10, goroutines, do); err != nil {
		return 0, err
	}
	return repeat(ctx, d, goroutines, do)
}

func repeat(
	ctx context.Context, d time.Duration, goroutines int, do func(*rand.Rand) error,
) (perSecond float64, err error) {
	var done atomic.Int64
	errs := make([]error, goroutines)
	start := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(g)))
			for time.Since(start) < d && ctx.Err() == nil {
				// Reading the clock costs as much as a read from memory, so 16 calls share one reading.
				for range 16 {
					if errs[g] = do(random); errs[g] != nil {
						return
					}
				}
				done.Add(16)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds(), errors.Join(append(errs, ctx.Err())...)
}
