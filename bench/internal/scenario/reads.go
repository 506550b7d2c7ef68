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

// hotKeys is how many objects the hot reads go to.
const hotKeys = 1000

// readers of the parallel reads.
const readers = 8

// reads: an informer that has synced and has nothing to do.
var reads = Scenario{
	Name: "reads", Title: "steady",
	Kinds: []string{"pods"}, Stored: true,
	Metrics: []Metric{
		{Key: "heap", Title: "live heap", Unit: Bytes},
		{Key: "hot_1", Title: "GetByKey hot, 1 goroutine", Unit: PerSecond},
		{Key: "hot_8", Title: "GetByKey hot, 8 goroutines", Unit: PerSecond},
		{Key: "by_index", Title: "ByIndex of a namespace", Unit: PerSecond},
		{Key: "cold", Title: "GetByKey of any object", Unit: Microseconds, Against: "raw bbolt Get + decode"},
	},
	Subjects: func(kind load.Kind) []subject.Spec {
		return append(typedAndDynamic(kind), subject.Spec{Library: subject.Raw}, subject.Spec{Library: subject.Raw, Dynamic: true})
	},
	Run: func(ctx context.Context, b *Bench) (Result, error) {
		if b.Case.Subject.Library == subject.Raw {
			return rawReads(ctx, b)
		}
		return runReads(ctx, b)
	},
	Seconds: func(c Case) float64 { return linear(1.5, 0.8)(c) + 4*readFor(c).Seconds() },
}

// readFor is how long each kind of read is done.
func readFor(c Case) time.Duration { return time.Duration(c.Effort * float64(time.Second)) }

func runReads(ctx context.Context, b *Bench) (Result, error) {
	r, err := b.start(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err := r.AwaitSync(ctx); err != nil {
		return finish(r, nil, err)
	}
	indexer := r.Informer.GetIndexer()
	if err := b.fill(indexer); err != nil {
		return finish(r, nil, err)
	}
	heap, err := steadyHeap(ctx)
	if err != nil {
		return finish(r, nil, err)
	}
	hot, all := keysOf(b)
	get := func(keys []string) func(*rand.Rand) error {
		return func(random *rand.Rand) error { return getOne(indexer, keys[random.IntN(len(keys))]) }
	}
	var hot1, hot8, byIndex, cold float64
	err = errors.Join(
		rate(ctx, readFor(b.Case), 1, get(all), &cold),
		rate(ctx, readFor(b.Case), 1, get(hot), &hot1),
		rate(ctx, readFor(b.Case), readers, get(hot), &hot8),
		rate(ctx, readFor(b.Case), 1, func(random *rand.Rand) error {
			_, err := indexer.ByIndex(subject.NamespaceIndex, load.Namespace(random.IntN(b.Case.N)))
			return err
		}, &byIndex),
		b.complete(r),
	)
	return finish(r, Result{"heap": heap, "hot_1": hot1, "hot_8": hot8, "by_index": byIndex, "cold": 1e6 / cold}, err)
}

// fill fills the cache of the residency Bounded, which nothing has been read into yet. The heaps of the others do not depend on what is read.
func (b *Bench) fill(indexer cache.Indexer) error {
	if b.Case.Subject.Residency != subject.Bounded {
		return nil
	}
	for i := range b.Case.N {
		if err := getOne(indexer, b.Kind.Key(i)); err != nil {
			return err
		}
	}
	return nil
}

// keysOf returns the keys of the hot objects, spread over all, and of all.
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

// A heap is steady when it has changed by less than that part in that time.
const (
	steadyPart  = 0.01
	steadyAfter = 100 * time.Millisecond
)

// steadyHeap returns the live heap once it no longer changes: what fills in the background has been filled then.
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

// liveHeap is what is still in use after the garbage has been collected, and what its finalizers held.
func liveHeap() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// rate sets per to how often a second do can be done by so many goroutines, after a tenth of the time to warm up.
func rate(ctx context.Context, d time.Duration, goroutines int, do func(*rand.Rand) error, per *float64) error {
	if err := repeat(ctx, d/10, goroutines, do, per); err != nil {
		return err
	}
	return repeat(ctx, d, goroutines, do, per)
}

func repeat(ctx context.Context, d time.Duration, goroutines int, do func(*rand.Rand) error, per *float64) error {
	var done atomic.Int64
	errs := make([]error, goroutines)
	start := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(g)))
			for time.Since(start) < d && ctx.Err() == nil {
				// The clock is read now and then only: it costs as much as a read from memory.
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
	*per = float64(done.Load()) / time.Since(start).Seconds()
	return errors.Join(append(errs, ctx.Err())...)
}
